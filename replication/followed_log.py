"""The log of a partition that another broker leads, as a follower uses it."""

from __future__ import annotations

from typing import NamedTuple, Protocol

NO_EPOCH, NO_OFFSET = -1, -1


class EpochEnd(NamedTuple):
    """A leader epoch, and the offset after its last record; (-1, -1) if unknown."""

    epoch: int
    end_offset: int


class DamagedRecords(Exception):
    """The leader's records are damaged, or do not follow the log's. Nothing was appended."""


class LogFailed(Exception):
    """The log cannot be used: its directory has failed."""


class FollowedLog(Protocol):
    """A follower's log. Every method may raise LogFailed."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch, -1 if there is none."""

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        """Return the largest epoch not above `epoch` and its end; (-1, -1) if unknown."""

    def append(self, records: memoryview, max_epoch: int) -> None:
        """Append whole batches of epochs up to `max_epoch`. Raises DamagedRecords.

        An empty log may get a batch that begins below its end and contains it: the leader's start is in the middle.

        A batch of an earlier epoch than `latest_epoch` does not follow the log. A leader may send one: it checks the
        fetch, loses its role, truncates, and reads records of the next leader (KAFKA-18723). The logs would differ
        below that batch, and no later fetch would show it.
        """

    def truncate(self, offset: int) -> None:
        """Remove the records from `offset` on, and the epochs that begin there.

        A log that begins above `offset` continues there, empty.
        """

    def start_over(self, offset: int) -> None:
        """Remove all records; the log continues at `offset`."""

    def note_leader(self, high_watermark: int, log_start_offset: int) -> None:
        """Take over the leader's offsets, as far as this log reaches."""
