"""A follower's fetch: it reads the partitions of its session that have changed, and replication has limits (KIP-73)."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import TYPE_CHECKING

from broker.replicas.fetch_attempt import FetchAttempt
from broker.replicas.fetch_session import FetchContext, FetchedPartition, FetchSession, Key
from broker.replication.replicated_partition import ReplicatedPartition
from protocol.error_codes import ErrorCode
from protocol.fetch_answer import FetchAnswer, FetchedData
from replication.follower_session import FollowerSession
from replication.leading import is_current
from storage.errors import OffsetOutOfRange
from storage.fetch_slice import FetchSlice

if TYPE_CHECKING:
    from broker.replicas.fetch_attempt import FetchServices
    from broker.replicas.partition import Partition
    from broker.requests.context import RequestContext
    from protocol.schema import Struct
    from replication.leading import Brokers
    from replication.throttle import ReplicationThrottle
    from runtime.deferred import Deferred

#: Each slice of a file in an answer takes two system calls, and the follower often wakes up in between. Up to this
#: size of all slices together, it costs less to copy them.
READ_BYTES = 64 << 10


class FollowerFetchAttempt(FetchAttempt):
    """A fetch of a follower. With a session it reads the partitions that are due, and waits for the session.

    Args:
        throttle: the limit of bytes that leaders send.
        brokers: the registered brokers, by the metadata.
        wake: tries the fetches again that wait for a session.
        waits: whether the fetch was counted and has waited already (follower_fetch_path.py).
    """

    __slots__ = (
        "_brokers",
        "_due",
        "_is_read_again",
        "_is_throttled",
        "_key_of",
        "_leaves_out",
        "_partitions",
        "_throttle",
    )

    def __init__(
        self,
        throttle: ReplicationThrottle,
        brokers: Brokers,
        wake: Callable[[Hashable], None],
        services: FetchServices,
        ctx: RequestContext,
        request: Struct,
        context: FetchContext,
        replica_id: int,
        *,
        waits: bool = False,
    ) -> None:
        session, self._partitions = context.session, context.partitions
        if session is not None:
            context = FetchContext({}, session)  # `read` chooses the partitions
        super().__init__(services, ctx, request, context, replica_id)
        self._throttle = throttle
        self._brokers = brokers
        self._is_read_again = waits
        self._is_throttled = self._leaves_out = False
        self._due: FollowerSession[Key] | None = None
        self._key_of: dict[FetchedPartition, Key] = {}
        if session is not None:
            self._due = session.of_follower if waits else self._begin(session, request, wake)
            self._choose()

    # -- its session -------------------------------------------------------------------------------------------------

    def _begin(self, session: FetchSession, request: Struct, wake: Callable[[Hashable], None]) -> FollowerSession[Key]:
        """Let the session count this fetch. Return it."""
        due = session.of_follower
        if due is None:
            due = session.of_follower = FollowerSession(session.partitions, wake)
        by_id = session.uses_topic_ids
        may_fetch = self._may_read is None or self._may_read("")
        due.begin_fetch(
            self._replica_id,
            self._replica_epoch,
            [
                (each.topic_id if by_id else each.topic, one.partition)
                for each in request.topics
                for one in each.partitions
            ],
            [
                (each.topic_id if by_id else each.topic, index)
                for each in request.forgotten_topics_data
                for index in each.partitions
            ],
            self._services.clock.monotonic_ms(),
            counts=may_fetch and is_current(self._brokers, self._replica_id, self._replica_epoch),
        )
        return due

    def _choose(self) -> None:
        """Choose the partitions to read."""
        due = self._due
        assert due is not None
        find = self._partitions.get  # a later fetch of the session may have had some forgotten
        self._key_of = {wanted: key for key in due.due if (wanted := find(key)) is not None}
        self._wanted = list(self._key_of)
        self._leaves_out = due.has_resting

    def read(self) -> bool:
        self._is_throttled = False
        if self._due is not None:
            self._choose()
        return super().read()

    def _read_one(
        self, partition: Partition, wanted: FetchedPartition, limit_bytes: int, one_batch: bool
    ) -> FetchedData | None:
        if not isinstance(partition, ReplicatedPartition):
            return super()._read_one(partition, wanted, limit_bytes, one_batch)
        if self._must_wait(partition):
            self._is_throttled = True
            limit_bytes, one_batch = 0, False
        follower = partition.leader.followers.get(self._replica_id)
        if self._due is None or follower is None:
            return super()._read_one(partition, wanted, limit_bytes, one_batch)
        key = self._key_of[wanted]
        follower.read_by(self._due, key)
        data = super()._read_one(partition, wanted, limit_bytes, one_batch)
        if data is not None:
            return data
        if (
            wanted.high_watermark == partition.high_watermark
            and wanted.log_start_offset == partition.log_start_offset
            and partition.may_rest(follower, self._replica_epoch)
        ):
            self._due.rest(key, follower)
            partition.log.awaited = True
        return None

    def _unreadable(
        self, partition: Partition, wanted: FetchedPartition, limit_bytes: int, one_batch: bool, error: Exception
    ) -> FetchedData:
        """Tell the follower to begin at the local log start offset, if its offset is in remote storage (KIP-405)."""
        if isinstance(error, OffsetOutOfRange):
            log = partition.log
            if log.config.tiered and log.log_start_offset <= wanted.fetch_offset < log.local_start_offset:
                code = ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
                return FetchedData(wanted.index, code, log.high_watermark, -1, log.log_start_offset)
        return super()._unreadable(partition, wanted, limit_bytes, one_batch, error)

    def park(self, max_wait_ms: int) -> Deferred[FetchAnswer]:
        """Wait. As in Apache Kafka, later reads of this fetch do not count: the follower may have failed since.

        The controller may have taken it out of the ISR meanwhile, for which this fetch is no reason to return.
        """
        self._is_read_again = True
        return super().park(max_wait_ms)

    def _keys(self) -> list[Hashable]:
        if self._due is None:
            return super()._keys()
        for wanted in self._wanted:
            partition = self._services.partitions.get(wanted.topic or "", wanted.index)
            if partition is not None and partition.open_log is not None:
                partition.open_log.awaited = True
        return [self._due]

    def _try_complete(self) -> bool:
        if self._due is None:
            return super()._try_complete()
        if not self.ends_wait():
            return False
        self._wake()
        return True

    def ends_wait(self) -> bool:
        """Read again, with a session; return whether there is something to answer with."""
        return self.read() or self._is_stale  # stale: a partition is missing

    # -- the throttle ------------------------------------------------------------------------------------------------

    def _must_wait(self, partition: ReplicatedPartition) -> bool:
        """Return whether the throttle of leaders holds the follower back."""
        throttle = self._throttle
        return (
            throttle.is_active
            and throttle.applies(partition.topic, partition.index)
            and self._replica_id not in partition.leader.isr.committed
            and throttle.wait_ms(self._services.clock.monotonic_ms()) > 0
        )

    def _on_timeout(self) -> None:
        self._is_stale |= self._is_throttled  # it may be due now
        # The high watermark may have moved, which wakes no fetch: the follower learns of it, as in Apache Kafka.
        self._is_stale |= self._due is not None
        super()._on_timeout()

    def warmed(self) -> FetchAnswer | Deferred[FetchAnswer]:
        answer = super().warmed()
        if type(answer) is FetchAnswer:
            self._read_small()
        return answer

    def _read_small(self) -> None:
        """Read the records of several partitions, so that one call sends all of them."""
        slices = [(data, data.records) for _, data in self._answers if type(data.records) is FetchSlice]
        if len(slices) == 1 or sum([each.size for _, each in slices]) > READ_BYTES:
            return
        for data, each in slices:
            with suppress(OSError):  # the send will fail with the same error
                records = each.read()
                if len(records) == each.size:
                    data.records = records

    def response(self) -> FetchAnswer:
        if self._throttle.is_active:
            self._count()
        if self._due is not None:
            self._due.serve_last([self._key_of[wanted] for wanted, data in self._answers if len(data.records)])
        return super().response()

    def _count(self) -> None:
        """Count the bytes of throttled partitions."""
        now_ms = self._services.clock.monotonic_ms()
        for wanted, data in self._answers:
            if len(data.records) and self._throttle.applies(wanted.topic or "", wanted.index):
                self._throttle.record(len(data.records), now_ms)
