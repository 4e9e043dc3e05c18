"""The log of a partition that another broker leads, as replication/following.py uses it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import wraps
from struct import Struct
from typing import Any, TypeVar

from broker.replication.counts import ReplicationCounts
from protocol.records.errors import CorruptBatch, InvalidRecord
from replication.followed_log import NO_EPOCH, DamagedRecords, EpochEnd, LogFailed
from runtime.clock import Clock
from storage.errors import AppendRefused, LogOffline
from storage.log.leader_epoch import EpochEntry
from storage.log.offset_checkpoints import OffsetCheckpoints
from storage.log.partition_log import PartitionLog
from storage.log.removals import Removals
from storage.log.truncation import start_behind_remote, start_over, truncate_logs
from storage.segment.scan import parse_entry

log = logging.getLogger(__name__)

#: The base offset, which begins each batch.
_OFFSET = Struct(">q")

Method = TypeVar("Method", bound=Callable[..., Any])


def _fails_alone(method: Method) -> Method:
    """Let the log fail alone, also by a defect: its fetcher has other logs."""

    @wraps(method)
    def guarded(self: LocalFollowedLog, *args: Any) -> Any:
        try:
            return method(self, *args)
        except (DamagedRecords, LogFailed):
            raise
        except LogOffline as error:
            raise LogFailed(str(error)) from error
        except Exception as error:
            log.exception("%s-%d is not followed any more in this epoch", self.topic, self.log.partition)
            raise LogFailed(str(error)) from error

    return guarded  # type: ignore[return-value]


class LocalFollowedLog:
    """A follower's log on the disk (`replication.followed_log.FollowedLog`).

    Args:
        log: the open log, whose replication has begun.
        checkpoints: those of the log manager; a truncation lowers the recovery point first.
        removals: those of the log manager, for files that a truncation removes.
        counts: gets the bytes that are copied.

    `leader_high_watermark` is that of the last response, and `is_added` whether a reassignment adds this replica, for
    metrics.
    """

    __slots__ = (
        "_checkpoints",
        "_clock",
        "_counts",
        "_removals",
        "is_added",
        "leader_high_watermark",
        "log",
        "on_advance",
    )

    def __init__(
        self,
        log: PartitionLog,
        checkpoints: OffsetCheckpoints,
        removals: Removals,
        clock: Clock,
        counts: ReplicationCounts | None = None,
    ) -> None:
        self.log = log
        self.leader_high_watermark = -1
        self.is_added = False
        self._counts = counts or ReplicationCounts()
        self._checkpoints = checkpoints
        self._removals = removals
        self._clock = clock
        #: Called when the high watermark has moved: consumers may read from followers (KIP-392).
        self.on_advance: Callable[[], None] = lambda: None

    @property
    def topic(self) -> str:
        return self.log.topic

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def latest_epoch(self) -> int:
        latest = self.log.leader_epochs.latest
        return NO_EPOCH if latest is None else latest

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        return EpochEnd(*self.log.end_offset_for_epoch(epoch))

    @_fails_alone
    def append(self, records: memoryview, max_epoch: int) -> None:
        try:
            log = self.log
            end_offset = log.log_end_offset
            if len(records) >= _OFFSET.size and _OFFSET.unpack_from(records)[0] < end_offset:
                self._begin_with(records)
                end_offset = log.log_end_offset
            size_bytes = log.append_replicated(
                records, now_ms=self._clock.now_ms(), max_epoch=max_epoch, min_epoch=self.latest_epoch
            )
            log.uncount(log.log_end_offset - end_offset, size_bytes)
            self._counts.bytes_in += len(records)
            if self.is_added:
                self._counts.added_bytes_in += len(records)
        except (AppendRefused, CorruptBatch, InvalidRecord) as error:
            raise DamagedRecords(str(error)) from error

    @_fails_alone
    def truncate(self, offset: int) -> None:
        produced, end = self.log.appended, self.log_end_offset
        if offset < end:
            name = f"{self.topic}-{self.log.partition}"
            log.info("Truncating %s from offset %d to %d, where it diverges from the leader's log", name, end, offset)
        truncate_logs({self.log: offset}, self._checkpoints, self._removals, self._clock.now_ms())
        self.log.appended = produced
        self.log.check_usable()

    @_fails_alone
    def start_over(self, offset: int) -> None:
        produced = self.log.appended
        start_over(self.log, offset, self._checkpoints, self._removals, self._clock.now_ms())
        self.log.appended = produced

    def start_behind_remote(
        self, offset: int, log_start_offset: int, epochs: Sequence[tuple[int, int]], snapshot: bytes
    ) -> None:
        """Continue at `offset`, where the leader's disk begins: the records before that are in remote storage alone.

        Raises LogOffline, and CorruptFile for a damaged snapshot.
        """
        produced = self.log.appended
        entries = [EpochEntry(*each) for each in epochs]
        now_ms = self._clock.now_ms()
        start_behind_remote(
            self.log, offset, log_start_offset, entries, snapshot, self._checkpoints, self._removals, now_ms
        )
        self.log.appended = produced

    def _begin_with(self, records: memoryview) -> None:
        """Let an empty log begin at the batch that its start is in the middle of.

        DeleteRecords may put the leader's log start there. `note_leader` raises the start again.
        """
        first = parse_entry(records, 0, 0)
        if first is not None and self.log_start_offset == self.log_end_offset <= first.last_offset:
            self.start_over(first.base_offset)

    @_fails_alone
    def note_leader(self, high_watermark: int, log_start_offset: int) -> None:
        self.leader_high_watermark = high_watermark
        log, before = self.log, self.log.high_watermark
        log.advance_high_watermark(high_watermark)
        if log.high_watermark != before:
            self.on_advance()
        if log_start_offset > log.log_start_offset:
            with log.directory.offline_on_error():
                log.raise_log_start(min(log_start_offset, log.high_watermark))
