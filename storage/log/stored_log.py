"""A log on the disk before it is opened."""

from __future__ import annotations

from typing import NamedTuple

from storage.log.directory import LogDirectory
from storage.log_config import LogConfig
from storage.producers.state import DEFAULT_EXPIRATION_MS


class StoredLog(NamedTuple):
    """The name of a log, the state that its last broker left, and the values to open it with.

    - `clean`: the last broker shut down cleanly. Otherwise the records after `recovery_point` are checked.
    - `recovered`: they were checked since then, but not forced to the disk.
    - `gapless_from`: above this offset a segment that does not begin where the previous one ends is cut off too. After
      a power failure the end of one segment may be missing while the next segment exists.
    - `replicated`: the partition has other replicas. The log continues where its records end, and never after a gap:
      other replicas have what is missing.
    - `in_order`: the names of its files show that it is in order and opens quickly (recovery/order.py).
    - `topic_id`: 16 bytes, as the last shutdown recorded it; None: it must be read from its file.
    - `state`: a digest of its file names and topic id when the start looked (`state_of`,
      recovery/clean_shutdown_manifest.py); None: unknown.
    """

    path: str
    topic: str
    partition: int
    config: LogConfig
    now_ms: int
    clean: bool = False
    in_order: bool = False
    recovered: bool = False
    recovery_point: int = 0
    log_start_offset: int = 0
    producer_expiration_ms: int = DEFAULT_EXPIRATION_MS
    gapless_from: int | None = None
    replicated: bool = False
    topic_id: bytes | None = None
    state: bytes | None = None


class UnopenedLog(NamedTuple):
    """A log that is not open yet. Until then it ends where a clean shutdown left it.

    `offline` is the reason why it cannot be opened although its directory works; None if it can.
    """

    directory: LogDirectory
    stored: StoredLog
    offline: str | None = None

    @property
    def problem(self) -> str | None:
        """The reason why the log or its directory is offline, or None."""
        return self.directory.failure or self.offline
