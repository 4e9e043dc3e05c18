"""Partition: its leader and followers, its high watermark, and its waiting requests. Its log handles the files.

All of it belongs to the event loop's thread. With this broker as the only replica, appended records are committed at
once: the high watermark follows the log end offset.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from protocol.error_codes import ErrorCode
from protocol.primitives import ZERO_UUID
from protocol.records.buffer import Buffer
from storage.append.header_validation import AppendOrigin
from storage.append.placing import PlacedBatch
from storage.append.record_validation import Opened
from storage.append.result import AppendResult
from storage.errors import LogOffline
from storage.log.partition_log import PartitionLog
from storage.log_config import LogConfig

if TYPE_CHECKING:
    from broker.replicas.append_scheduler import AppendQueue
    from runtime.deferred import Deferred


NO_LEADER_EPOCH = -1


class OfflineLog(NamedTuple):
    """Stands for a log that cannot be used, because its directory has failed or it cannot be opened."""

    topic: str
    partition: int
    topic_id: bytes
    config: LogConfig
    reason: LogOffline


class LogOpener(Protocol):
    """Opens logs on first use."""

    def open_log(self, partition: Partition) -> PartitionLog:
        """Return the log of a partition. Raises LogOffline if it cannot be opened, or not yet."""

    def config_of(self, partition: Partition) -> LogConfig:
        """Return the configuration of a log that is not open."""


class LogOnDemand(NamedTuple):
    """Stands for a log that `opener` opens on first use."""

    topic: str
    partition: int
    topic_id: bytes
    opener: LogOpener


class Partition:
    """One partition of a topic, led by this broker. It is also the purgatory's key for requests that wait for it.

    Args:
        wake: called with the partition when records were appended, or another change may concern waiting requests.
    """

    __slots__ = (
        "_offline",
        "_opener",
        "_wake",
        "absence",
        "hosted",
        "index",
        "internal",
        "isr",
        "leader_epoch",
        "leader_id",
        "open_log",
        "queue",
        "replicas",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        log: PartitionLog | LogOnDemand | OfflineLog,
        *,
        leader_id: int,
        leader_epoch: int,
        replicas: tuple[int, ...],
        isr: tuple[int, ...],
        internal: bool,
        wake: Callable[[Partition], None],
    ) -> None:
        self.topic = log.topic
        self.topic_id: bytes = log.topic_id or ZERO_UUID
        self.index = log.partition
        # A log is open, offline, or not opened yet: exactly one of these is set.
        #: The open log. Fast paths leave a partition without one to the handler.
        self.open_log: PartitionLog | None = None
        self._offline: OfflineLog | None = None
        self._opener: LogOpener | None = None
        if isinstance(log, LogOnDemand):
            self._opener = log.opener
        elif isinstance(log, OfflineLog):
            self._offline = log
        else:
            self.open_log = log
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replicas = replicas
        self.isr = isr
        #: Whether clients may not write to the topic: __consumer_offsets, __transaction_state, __share_group_state.
        self.internal = internal
        #: False once the topic is deleted, or another broker leads. Then `absence` is what requests are answered.
        self.hosted = True
        self.absence = ErrorCode.NONE
        #: Appends that wait for a batch that is being opened; usually None. See broker/replicas/append_scheduler.py.
        self.queue: AppendQueue | None = None
        self._wake = wake

    def __repr__(self) -> str:
        return f"Partition({self})"

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def is_unopened(self) -> bool:
        """Whether nobody has used the log yet, or it could not be opened so far."""
        return self._opener is not None

    @property
    def log(self) -> PartitionLog:
        """The log. The first use opens it. Raises LogOffline while it is offline or cannot be opened."""
        return self.open_log or self._open()

    @log.setter
    def log(self, log: PartitionLog) -> None:
        self.open_log = log
        self._offline = self._opener = None

    def _open(self) -> PartitionLog:
        if self._opener is not None:
            self.log = self._opener.open_log(self)
            return self.log
        assert self._offline is not None
        reason = self._offline.reason
        raise type(reason)(reason.path, reason.reason)

    def find_log(self) -> PartitionLog | None:
        """Return the log, which the first use opens; None while it is offline or cannot be opened."""
        try:
            return self.log
        except LogOffline:
            return None

    def leave(self, absence: ErrorCode) -> None:
        """Serve the partition no longer, and wake waiting requests, which are answered `absence`."""
        self.hosted, self.absence = False, absence
        self._wake(self)

    def set_offline(self, offline: OfflineLog) -> None:
        """Stop using the log: its directory has failed."""
        self.open_log = self._opener = None
        self._offline = offline

    @property
    def log_config(self) -> LogConfig:
        """The configuration of the log, which may be offline. The first use opens the log."""
        log = self.find_log()
        if log is not None:
            return log.config
        if self._opener is not None:
            return self._opener.config_of(self)
        assert self._offline is not None
        return self._offline.config

    @log_config.setter
    def log_config(self, config: LogConfig) -> None:
        self.configure(config)

    def configure(self, config: LogConfig) -> None:
        """Take over another configuration of the log, which may be offline."""
        if self._offline is not None:
            self._offline = self._offline._replace(config=config)
        else:
            self.log.config = config

    @property
    def online(self) -> bool:
        """Whether the log can be read and written; otherwise all requests get KAFKA_STORAGE_ERROR."""
        log = self.find_log()
        return log is not None and log.directory.is_online

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def high_watermark(self) -> int:
        """The end of committed records: the upper bound for read_uncommitted."""
        return self.log.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """The start of the earliest open transaction, else the high watermark: the upper bound for read_committed."""
        return self.log.last_stable_offset

    def latest_offset(self, committed: bool) -> int:
        """Return the end of what a consumer may read; `committed` (read_committed): the last stable offset.

        A leader with followers raises OffsetNotAvailable as long as it does not know the end (KIP-207).
        """
        return self.last_stable_offset if committed else self.high_watermark

    def lead(self, leader_epoch: int) -> None:
        """Become the leader with this epoch, from the log end offset on (KIP-101). Raises LogOffline."""
        self.leader_epoch = leader_epoch
        self.log.assign_leader_epoch(leader_epoch)

    def swap_log(self, log: PartitionLog) -> None:
        """Use a copy of the log, in another log directory, from now on. Raises LogOffline."""
        self.log = log
        self.note_epoch(log)
        self._wake(self)

    def note_epoch(self, log: PartitionLog) -> None:
        """Note in a copy of the log the epoch in which this broker leads, so that it may append there."""
        log.assign_leader_epoch(self.leader_epoch)

    def append(
        self,
        records: Buffer,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        opened: Opened | None = None,
        placed: PlacedBatch | None = None,
    ) -> AppendResult:
        """Append as the leader, now, and wake waiting requests. For callers whose turn it is
        (broker/replicas/append_scheduler.py).

        Raises storage.errors, BatchToOpen for batches that must be `opened` first, and NotInPlace if the batch must be
        `placed` again.
        """
        log = self.open_log or self._open()
        result = log.append(records, self.leader_epoch, now_ms, origin, opened, placed)
        self._wake(self)
        return result

    def delete_records(self, before_offset: int) -> int:
        """Raise the log start offset (-1: to the high watermark); return the low watermark. Raises OffsetOutOfRange."""
        self.log.delete_records(self.high_watermark if before_offset == -1 else before_offset)
        self._wake(self)
        return self.log_start_offset

    @property
    def low_watermark(self) -> int:
        """The lowest log start offset of all replicas that are there: records below it are deleted everywhere."""
        return self.log_start_offset

    def when_deleted(self, before_offset: int, timeout_ms: int) -> Deferred[None] | None:
        """Resolve once the low watermark has reached `before_offset`; None if it has. Fails with NotCommitted."""
        return None

    def is_under_min_isr(self) -> bool:
        """Return whether acks=all cannot be promised: the ISR is smaller than min.insync.replicas.

        Where a partition has fewer replicas than min.insync.replicas, all of them suffice.
        """
        in_sync, replicas = len(self.isr), len(self.replicas)
        return in_sync < replicas and in_sync < min(self.log_config.min_insync_replicas, replicas)

    def check_follower(self, broker_id: int, broker_epoch: int, leader_epoch: int) -> ErrorCode:
        """Return why a broker's fetch is refused, whose current leader epoch is this: no other broker has a replica."""
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if leader_epoch < 0 else ErrorCode.UNKNOWN_LEADER_EPOCH

    def follower_fetched(self, broker_id: int, broker_epoch: int, offset: int, log_start_offset: int) -> None:
        """Note that a follower has all records below `offset`. Only a partition that others follow keeps it."""

    def follower_read(self, broker_id: int, size_bytes: int) -> None:
        """Count bytes of records in a response to a follower."""

    def check_leader_epoch(self, epoch: int) -> ErrorCode:
        """Compare a client's current leader epoch with ours; negative epochs are not compared (KIP-320)."""
        if epoch < 0 or epoch == self.leader_epoch:
            return ErrorCode.NONE
        return ErrorCode.FENCED_LEADER_EPOCH if epoch < self.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH

    def check_exact_leader_epoch(self, epoch: int) -> ErrorCode:
        """Compare as all APIs but Fetch do: only the epoch -1 is not compared."""
        return ErrorCode.FENCED_LEADER_EPOCH if epoch < NO_LEADER_EPOCH else self.check_leader_epoch(epoch)
