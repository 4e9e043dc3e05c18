"""A log on the disk, before it is opened."""

from __future__ import annotations

from typing import NamedTuple

from storage.log.directory import LogDirectory
from storage.log_config import LogConfig
from storage.producers.state import DEFAULT_EXPIRATION_MS


class StoredLog(NamedTuple):
    """Which log it is, how its last broker left it, and what it is to be opened with.

    `clean`: that broker stopped in order. Otherwise what lies behind `recovery_point` is checked, unless the log was
    `recovered` since: then it is checked already, but not forced to the disk.
    `gapless_from`: above that offset, a segment that does not begin where the one before it ends is cut off as well.
    After a power loss the end of one segment may be missing while the next is there.
    `in_order`: it is so by the names of its files, and quick to open (recovery/order.py).
    `topic_id`: 16 bytes, as its last stop noted them; None: they have to be read.
    `state`: of its names and its topic id, when the start looked (`state_of`, recovery/as_left.py); None: unknown.
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
    topic_id: bytes | None = None
    state: bytes | None = None


class UnopenedLog(NamedTuple):
    """A log that waits to be opened. Until then it ends where a clean stop left it.

    `offline`: why it cannot be opened, though its directory works; None: it can.
    """

    directory: LogDirectory
    stored: StoredLog
    offline: str | None = None

    @property
    def problem(self) -> str | None:
        """Why it, or its directory, is offline."""
        return self.directory.failure or self.offline
