"""A partition with several replicas that this broker leads. Kafka's Partition, as the leader's side of it.

`replication/leading.py` decides; here its decisions move the log's high watermark, end the waits of producers and
fetches, and ask for changes of the ISR. An object stands for one term as leader, which may have several epochs. When
another broker leads, `leave` ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeAlias

from broker.replicas.partition import OfflineLog, Partition
from broker.replication.commits import Commits
from broker.replication.counts import ReplicationCounts
from broker.requests.error_code_map import OffsetNotAvailable
from metadata.partition_registration import PartitionRegistration
from protocol.error_codes import ErrorCode
from protocol.records.buffer import Buffer
from replication.follower import Follower
from replication.isr_changes import Answer, Outcome
from replication.leading import Brokers, LeaderState, Proposal, is_current
from replication.partition_key import PartitionKey
from runtime.clock import Clock
from runtime.deferred import Deferred
from storage.append.header_validation import AppendOrigin
from storage.append.placing import PlacedBatch
from storage.append.record_validation import Opened
from storage.append.result import AppendResult
from storage.log.partition_log import PartitionLog
from storage.log_config import LogConfig

#: Asks the controller for another ISR of a partition.
Propose: TypeAlias = Callable[[PartitionKey, Proposal], None]
_NEW_TUPLE = tuple.__new__


class ReplicatedPartition(Partition):
    """A partition that this broker leads and others follow.

    Args:
        log: the open log, whose replication has begun (`ReplicaLog.begin_replication`).
        max_lag_ms: replica.lag.time.max.ms.
        wake: called when records were appended or committed.
        propose: called with each ISR to ask the controller for.
    """

    __slots__ = (
        "_adding",
        "_brokers",
        "_clock",
        "_commits",
        "_deletions",
        "_max_lag_ms",
        "_propose",
        "_wake_readers",
        "counts",
        "leader",
    )

    def __init__(
        self,
        log: PartitionLog,
        registration: PartitionRegistration,
        *,
        node_id: int,
        brokers: Brokers,
        commits: Commits,
        clock: Clock,
        max_lag_ms: int,
        internal: bool,
        wake: Callable[[Partition], None],
        propose: Propose,
        counts: ReplicationCounts | None = None,
    ) -> None:
        super().__init__(
            log,
            leader_id=node_id,
            leader_epoch=registration.leader_epoch,
            replicas=registration.replicas,
            isr=registration.isr,
            internal=internal,
            wake=partial(_wake_all, wake),
        )
        self._wake_readers = wake
        self.counts = counts or ReplicationCounts()
        self._brokers = brokers
        self._commits = commits
        self._deletions = Commits(commits.timers)
        self._clock = clock
        self._max_lag_ms = max_lag_ms
        self._propose = propose
        self.leader = self._begin(registration)
        self._advance()  # with no other replica in sync, all records are committed now

    # -- the metadata log --------------------------------------------------------------------------------------------

    def _begin(self, registration: PartitionRegistration) -> LeaderState:
        """Begin an epoch of leadership at the log end. Raises LogOffline."""
        log = self.log
        super().lead(registration.leader_epoch)
        self.replicas, self.isr = registration.replicas, registration.isr
        self._adding = registration.adding_replicas
        return LeaderState(
            self.leader_id,
            self._brokers,
            replicas=registration.replicas,
            isr=registration.isr,
            leader_epoch=registration.leader_epoch,
            partition_epoch=registration.partition_epoch,
            start_offset=log.log_end_offset,
            high_watermark=log.high_watermark,
            min_in_sync_replicas=log.config.min_insync_replicas,
            max_lag_ms=self._max_lag_ms,
            now_ms=self._clock.monotonic_ms(),
        )

    def latest_offset(self, committed: bool) -> int:
        """Raises OffsetNotAvailable until the high watermark is in this epoch: before, it could be seen to go back."""
        if not self.leader.last_committed_is_known:
            raise OffsetNotAvailable(f"{self}: the high watermark is in an earlier leader epoch")
        return super().latest_offset(committed)

    def lead_again(self, registration: PartitionRegistration) -> None:
        """Begin another epoch of leadership. Producers go on waiting: their records are still in the log."""
        self.leader.wake_followers()  # their fetches name the former epoch
        self.leader = self._begin(registration)
        self._advance()

    def change(self, registration: PartitionRegistration) -> None:
        """Take over other replicas or another ISR in the same epoch of leadership."""
        self.replicas, self._adding = registration.replicas, registration.adding_replicas
        moved = self.leader.change(
            registration.replicas, registration.isr, registration.partition_epoch, *self._end_and_time()
        )
        self._take_over(moved)
        self._end_deletions()

    def set_offline(self, offline: OfflineLog) -> None:
        super().set_offline(offline)
        self.leader.wake_followers()

    def leave(self, absence: ErrorCode) -> None:
        """End the waits of producers, too: whether their records are committed is not known."""
        super().leave(absence)
        self._commits.fail(absence)
        self._deletions.fail(absence)

    # -- appends -----------------------------------------------------------------------------------------------------

    def append(
        self,
        records: Buffer,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        opened: Opened | None = None,
        placed: PlacedBatch | None = None,
    ) -> AppendResult:
        result = Partition.append(self, records, now_ms, origin, opened, placed)  # faster than `super()`
        self._advance()
        # `must_wait`: also a repeated batch, which may not be committed yet
        return _NEW_TUPLE(AppendResult, (*result[:-1], True))

    def when_committed(self, end_offset: int, timeout_ms: int) -> Deferred[None]:
        """Resolve once all in-sync replicas have the records below `end_offset`. Fails with NotCommitted."""
        committed = self._commits.wait(end_offset, self._clock.monotonic_ms() + max(timeout_ms, 0))
        if end_offset <= self.leader.high_watermark:
            self._end_waits()
        return committed

    @property
    def low_watermark(self) -> int:
        followers = self.leader.followers.values()
        active = (each for each in followers if self._brokers.broker_epoch(each.broker_id) is not None)
        return min((self.log_start_offset, *(each.log_start_offset for each in active)))

    def when_deleted(self, before_offset: int, timeout_ms: int) -> Deferred[None] | None:
        """Followers learn of the log start by their next fetch, and report theirs by the one after it."""
        if self.low_watermark >= before_offset:
            return None
        return self._deletions.wait(before_offset, self._clock.monotonic_ms() + max(timeout_ms, 0))

    def _end_deletions(self) -> None:
        if len(self._deletions):
            self._deletions.advance(self.low_watermark, ErrorCode.NONE)

    def is_under_min_isr(self) -> bool:
        return not self.leader.has_enough_replicas

    def configure(self, config: LogConfig) -> None:
        super().configure(config)
        self.leader.min_in_sync_replicas = config.min_insync_replicas
        if self.open_log is not None:
            self._advance()

    # -- followers ---------------------------------------------------------------------------------------------------

    def check_follower(self, broker_id: int, broker_epoch: int, leader_epoch: int) -> ErrorCode:
        """Return why a broker's fetch is refused: it has no replica, or has registered again since (KIP-903)."""
        if broker_id not in self.leader.followers:
            return super().check_follower(broker_id, broker_epoch, leader_epoch)
        return (
            ErrorCode.NONE if is_current(self._brokers, broker_id, broker_epoch) else ErrorCode.NOT_LEADER_OR_FOLLOWER
        )

    def follower_fetched(self, broker_id: int, broker_epoch: int, offset: int, log_start_offset: int) -> None:
        """Note that a follower has all records below `offset`: its fetch was read, and its log agrees with this one."""
        moved = self.leader.fetched(broker_id, broker_epoch, offset, log_start_offset, *self._end_and_time())
        if moved:
            self._committed()
        self._end_deletions()
        self._ask_for(self.leader.expansion(broker_id))

    def may_rest(self, follower: Follower, broker_epoch: int) -> bool:
        """Return whether further fetches of a follower change nothing until it is woken.

        While a client waits until records are deleted everywhere, any fetch may find that the last one to wait for is
        gone.
        """
        return not len(self._deletions) and self.leader.may_rest(follower, broker_epoch, self.log.log_end_offset)

    def log_start_raised(self) -> None:
        """Retention has removed records: followers have to know, and consumers see it when they fetch."""
        self.leader.wake_followers()

    def follower_read(self, broker_id: int, size_bytes: int) -> None:
        """Count bytes for a follower, which are not among those that clients fetched."""
        self.count_sent(broker_id, size_bytes)
        self.log.fetched_bytes -= size_bytes

    def count_sent(self, broker_id: int, size_bytes: int) -> None:
        """Count bytes for a follower, which were not counted as fetched by clients."""
        self.counts.bytes_out += size_bytes
        if broker_id in self._adding:
            self.counts.added_bytes_out += size_bytes

    def check_lag(self) -> None:
        """Ask for an ISR without the followers that lag. Call it each half of replica.lag.time.max.ms."""
        self._ask_for(self.leader.shrinkage(*self._end_and_time()))

    def take_answer(self, answer: Answer) -> None:
        """Take over what the controller made of a proposal."""
        before = len(self.isr)
        end_and_time = self._end_and_time()
        if answer.outcome is Outcome.COMMITTED:
            at = answer.proposal.partition_epoch
            epochs = answer.leader_epoch, answer.partition_epoch
            moved = self.leader.committed(answer.isr, *epochs, *end_and_time, proposed_at=at)
        elif answer.outcome is Outcome.REFUSED:
            self.counts.failed_isr_updates += 1
            moved = self.leader.refused(answer.proposal.partition_epoch, *end_and_time)
        else:
            self.counts.failed_isr_updates += 1
            return  # the metadata log has a change that says more
        self._take_over(moved)
        self.counts.note_isr(before, len(self.isr))

    def _ask_for(self, proposal: Proposal | None) -> None:
        if proposal is not None:
            self._propose((self.topic_id, self.index), proposal)

    # -- the high watermark ------------------------------------------------------------------------------------------

    def _end_and_time(self) -> tuple[int, int]:
        log = self.open_log or self._open()
        return log.log_end_offset, self._clock.monotonic_ms()

    def _take_over(self, moved: bool) -> None:
        self.isr = _in_order(self.replicas, self.leader.isr.committed)
        if moved:
            self._committed()

    def _advance(self) -> None:
        if self.leader.advance(*self._end_and_time()):
            self._committed()

    def _committed(self) -> None:
        """The high watermark has moved: consumers may read more, and producers get their answers."""
        self.log.advance_high_watermark(self.leader.high_watermark)
        self.leader.end_rests()
        self._wake_readers(self)
        self._end_waits()

    def _end_waits(self) -> None:
        had_enough = self.leader.had_enough_replicas
        code = ErrorCode.NONE if had_enough else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        self._commits.advance(self.leader.high_watermark, code)


def _wake_all(wake: Callable[[Partition], None], partition: ReplicatedPartition) -> None:
    """Wake the fetches that wait: of consumers, at the partition; of followers, in their sessions."""
    partition.leader.wake_followers()
    wake(partition)


def _in_order(replicas: Iterable[int], isr: frozenset[int]) -> tuple[int, ...]:
    return tuple(each for each in replicas if each in isr)
