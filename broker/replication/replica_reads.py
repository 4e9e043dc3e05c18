"""Fetches in a member: of followers (follower_fetch.py), and of consumers, which may read from followers (KIP-392)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from broker.replicas.fetch_attempt import FetchAttempt
from broker.replicas.fetched_data import failed_data
from broker.replicas.partition import NO_LEADER_EPOCH
from broker.replication.follower_fetch import FollowerFetchAttempt
from broker.replication.replicated_partition import ReplicatedPartition
from protocol.error_codes import ErrorCode
from protocol.fetch_answer import FetchedData
from replication.read_replica import ReadableReplica, nearest

if TYPE_CHECKING:
    from broker.replicas.fetch_attempt import FetchServices
    from broker.replicas.fetch_session import FetchContext, FetchedPartition
    from broker.replicas.partition import Partition
    from broker.replicas.partitions import Partitions
    from broker.replication.replicas import Replicas
    from broker.requests.context import RequestContext
    from metadata.image import MetadataImage
    from protocol.schema import Struct
    from replication.leading import Brokers
    from replication.throttle import ReplicationThrottle
    from runtime.clock import Clock

SELECTOR_KEY = "replica.selector.class"
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_ONLY = "org.apache.kafka.common.replica.LeaderSelector"

_FIRST_VERSION_WITH_RACK = 11


class LedPartitions:
    """The partitions that this broker leads. Errors for those that it follows compare the client's leader epoch."""

    def __init__(self, partitions: Partitions, replicas: Replicas) -> None:
        self._followed = replicas.followed_partition
        self._led = partitions.get
        self._absence = partitions.absence
        self.topic_name = partitions.topic_name
        self.of_topic = partitions.of_topic

    def get(self, topic: str, index: int) -> Partition | None:
        """Return a partition that may be read here, or None."""
        return self._led(topic, index)

    def absence(self, topic: str | None, index: int, leader_epoch: int = NO_LEADER_EPOCH) -> ErrorCode:
        """Return the error code for a partition that may not be read here."""
        followed = None if topic is None else self._followed(topic, index)
        code = ErrorCode.NONE if followed is None else followed.check_exact_leader_epoch(leader_epoch)
        return code or self._absence(topic, index)


class ReadablePartitions(LedPartitions):
    """The partitions that this broker leads or follows: of a log directory, and those that consumers may read."""

    def __init__(self, partitions: Partitions, replicas: Replicas) -> None:
        super().__init__(partitions, replicas)
        self.open_now = partitions.open_now

    def get(self, topic: str, index: int) -> Partition | None:
        return self._led(topic, index) or self._followed(topic, index)


class ReplicaReads(NamedTuple):
    """The parts that fetches of a member use.

    Attributes:
        led, partitions: those that may be read only from the leader, and those that consumers may read here.
        selects_racks: whether consumers are sent to replicas in their racks (replica.selector.class).
        brokers: the registered brokers, by the metadata.
        throttle: the limit of bytes that leaders send.
        wake: tries the fetches again that wait for a key.
        consumer_attempt: creates the attempts of consumers; None: ReplicaFetchAttempt.
    """

    led: LedPartitions
    partitions: ReadablePartitions
    image: MetadataImage
    clock: Clock
    brokers: Brokers
    throttle: ReplicationThrottle
    wake: Callable[[Hashable], None]
    selects_racks: bool
    consumer_attempt: Callable[..., FetchAttempt] | None = None

    def attempt(
        self, services: FetchServices, ctx: RequestContext, request: Struct, context: FetchContext, replica_id: int
    ) -> FetchAttempt:
        """Create the attempt of a request."""
        if replica_id >= 0:
            return FollowerFetchAttempt(
                self.throttle, self.brokers, self.wake, services, ctx, request, context, replica_id
            )
        create = self.consumer_attempt or ReplicaFetchAttempt
        return create(self, services, ctx, request, context, replica_id)


class ReplicaFetchAttempt(FetchAttempt):
    """A fetch of a consumer, which may read followers from v11 on."""

    __slots__ = ("_is_redirected", "_rack", "_reads")

    def __init__(
        self,
        reads: ReplicaReads,
        services: FetchServices,
        ctx: RequestContext,
        request: Struct,
        context: FetchContext,
        replica_id: int,
    ) -> None:
        if ctx.api_version >= _FIRST_VERSION_WITH_RACK:
            services = services._replace(partitions=reads.partitions)  # type: ignore[arg-type]
        super().__init__(services, ctx, request, context, replica_id)
        self._reads = reads
        has_rack = reads.selects_racks and ctx.api_version >= _FIRST_VERSION_WITH_RACK
        self._rack: str = request.rack_id if has_rack else ""
        self._is_redirected = False

    def read(self) -> bool:
        self._is_redirected = False
        return super().read() or self._is_redirected

    def _read_one(
        self, partition: Partition, wanted: FetchedPartition, limit_bytes: int, one_batch: bool
    ) -> FetchedData | None:
        if self._rack and isinstance(partition, ReplicatedPartition):
            preferred = self._preferred(partition, wanted)
            if preferred is not None:
                return preferred
        return super()._read_one(partition, wanted, limit_bytes, one_batch)

    def _preferred(self, partition: ReplicatedPartition, wanted: FetchedPartition) -> FetchedData | None:
        """Return the answer that sends the consumer to a follower in its rack; None if it reads here."""
        if wanted.topic_id not in (partition.topic_id, bytes(16)):
            return None
        reads, log = self._reads, partition.find_log()
        if log is None:
            return None
        own = reads.image.brokers.get(partition.leader_id)
        leader = ReadableReplica(partition.leader_id, None if own is None else own.rack, log.log_end_offset, 0)
        chosen = nearest(self._rack, leader, self._readable(partition, wanted.fetch_offset))
        if chosen is leader:
            return None
        code = partition.check_exact_leader_epoch(wanted.current_leader_epoch)
        if code:
            return failed_data(wanted, code)
        self._is_redirected = True
        data = FetchedData(wanted.index, 0, log.high_watermark, log.last_stable_offset, log.log_start_offset)
        data.preferred_read_replica = chosen.broker_id
        return data

    def _readable(self, partition: ReplicatedPartition, offset: int) -> Iterator[ReadableReplica]:
        """Yield the followers in sync that have the offset, and listen where the consumer came from."""
        now_ms, listener = self._reads.clock.monotonic_ms(), self._ctx.connection.listener_name
        in_sync = partition.leader.isr.committed
        for broker_id, each in partition.leader.followers.items():
            broker = self._reads.image.brokers.get(broker_id)
            if broker_id not in in_sync or not each.log_start_offset <= offset <= each.log_end_offset:
                continue
            if broker is not None and not broker.fenced and any(one.name == listener for one in broker.endpoints):
                yield ReadableReplica(broker_id, broker.rack, each.log_end_offset, now_ms - each.caught_up_ms)
