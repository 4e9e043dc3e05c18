"""A replica's log in memory, with a flushed offset and a checkpoint of its high watermark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from replication.followed_log import DamagedRecords, EpochEnd, LogFailed
from replication.partition_key import PartitionKey
from tests.simulation.coordination.producer_log import ProducerLog

if TYPE_CHECKING:
    from tests.simulation.invariants import Invariants

#: Epoch and value of a record; a batch has one record. Those of coordinators and their clients are bytes.
Entry = tuple[int, Any]


class ReplicaLog:
    """The log of one replica. `epochs` has the first offset of each leader epoch."""

    def __init__(self, broker_id: int, key: PartitionKey, checks: Invariants) -> None:
        self.broker_id, self.key, self.checks = broker_id, key, checks
        self.base = 0
        self.entries: list[Entry] = []
        self.epochs: list[tuple[int, int]] = []
        self.log_start_offset = self.high_watermark = 0
        self.flushed = self.checkpoint = 0
        self.broken = False
        self._producers: ProducerLog | None = None

    @property
    def producers(self) -> ProducerLog:
        """The producers whose batches are in the log."""
        if self._producers is None:
            self._producers = ProducerLog(self.entries, self.base, self.high_watermark)
        return self._producers

    @property
    def log_end_offset(self) -> int:
        return self.base + len(self.entries)

    @property
    def latest_epoch(self) -> int:
        return self.epochs[-1][0] if self.epochs else -1

    def at(self, offset: int) -> Entry | None:
        index = offset - self.base
        return self.entries[index] if 0 <= index < len(self.entries) else None

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        epochs = self.epochs
        if not epochs or epoch > epochs[-1][0]:
            return EpochEnd(-1, -1)
        if epoch == epochs[-1][0]:
            return EpochEnd(epoch, self.log_end_offset)
        end = next(start for found, start in epochs if found > epoch)
        return EpochEnd(max((found for found, _ in epochs if found <= epoch), default=epoch), end)

    def lead(self, epoch: int) -> None:
        """Note the beginning of an epoch of leadership."""
        if self.latest_epoch < epoch:
            self._begin(epoch)

    def _begin(self, epoch: int) -> None:
        end = self.log_end_offset
        if self.epochs and self.epochs[-1][1] >= end:
            self.epochs = [each for each in self.epochs if each[1] < end]
        self.epochs.append((epoch, end))

    def write(self, epoch: int, value: Any) -> int:
        """Append a record; return its offset."""
        if self.broken:
            raise LogFailed
        offset = self.log_end_offset
        before = self.entries[-1][0] if self.entries else None
        if self.latest_epoch < epoch:
            self._begin(epoch)
        producers = self._producers
        self.entries.append((epoch, value))
        self.checks.appended(self, offset, epoch, value, before)
        if producers is not None:
            producers.note(offset, value)
        return offset

    def read(self, offset: int, count: int) -> list[tuple[int, int, Any]]:
        """Return up to `count` records with their offsets."""
        first = offset - self.base
        return [
            (offset + index, epoch, value) for index, (epoch, value) in enumerate(self.entries[first : first + count])
        ]

    # -- a follower's log --------------------------------------------------------------------------------------------

    def append(self, records: Any, max_epoch: int) -> None:
        if self.broken:
            raise LogFailed
        if records[0][0] != self.log_end_offset or records[0][1] < self.latest_epoch:
            raise DamagedRecords
        for _, epoch, value in records:
            if epoch > max_epoch:
                break
            self.write(epoch, value)

    def truncate(self, offset: int) -> None:
        if self.broken:
            raise LogFailed
        if offset < self.base:
            self.start_over(offset)
            return
        end = self.log_end_offset
        removed = self.entries[offset - self.base :]
        self._cut(offset)
        self.checks.truncated(self, end - len(removed), removed)

    def _cut(self, offset: int) -> None:
        del self.entries[max(0, offset - self.base) :]
        self._producers = None
        self.epochs = [each for each in self.epochs if each[1] < offset]
        end = self.log_end_offset
        self.flushed = min(self.flushed, end)
        self.high_watermark = min(self.high_watermark, end)
        self.checkpoint = min(self.checkpoint, end)
        self.log_start_offset = min(self.log_start_offset, end)

    def start_over(self, offset: int) -> None:
        """Remove everything; the log goes on at `offset`."""
        if self.broken:
            raise LogFailed
        removed, first = self.entries, self.base
        self.entries, self.epochs, self.base = [], [], offset
        self._producers = None
        self.log_start_offset = self.high_watermark = self.flushed = self.checkpoint = offset
        self.checks.truncated(self, first, removed)

    def note_leader(self, high_watermark: int, log_start_offset: int) -> None:
        self.high_watermark = max(self.high_watermark, min(high_watermark, self.log_end_offset))
        self.log_start_offset = max(self.log_start_offset, min(log_start_offset, self.high_watermark))
        self.checks.followed(self)

    def copy(self) -> ReplicaLog:
        """Return a copy with the same records, none of them flushed."""
        made = ReplicaLog(self.broker_id, self.key, self.checks)
        made.base, made.entries, made.epochs = self.base, list(self.entries), list(self.epochs)
        made.log_start_offset, made.high_watermark = self.log_start_offset, self.high_watermark
        made.flushed = made.checkpoint = self.base
        return made

    # -- the disk ----------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        self.flushed = self.log_end_offset

    def write_checkpoint(self) -> None:
        self.checkpoint = self.high_watermark

    def crash(self, kept: int | None) -> None:
        """The process is killed, or the power fails: all but `kept` records that were not flushed are lost."""
        if kept is not None:
            self._cut(min(self.log_end_offset, self.flushed + kept))
        self.broken = False

    def open(self) -> None:
        """Recover after a start: the checkpoint has the last high watermark that is known."""
        self.high_watermark = max(self.log_start_offset, min(self.checkpoint, self.log_end_offset))
        self._producers = None
