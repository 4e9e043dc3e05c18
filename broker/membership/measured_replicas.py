"""The samples of metrics that only a member of a cluster has, under Apache Kafka's names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from broker.observability.metrics import metric_table as table
from metadata.partition_registration import PartitionRegistration
from replication.following import Phase

if TYPE_CHECKING:
    from broker.membership.committed_metadata import CommittedMetadata
    from broker.membership.replication import MemberReplication
    from broker.observability.metrics.metric import Sample
    from broker.replicas.partitions import Partitions

#: Apache Kafka's client id of the fetchers as a group.
_FETCHERS = ("Replica",)


class MeasuredReplicas:
    """The replicas of this broker (`broker.observability.metrics.observed.ReplicaView`)."""

    def __init__(self, replication: MemberReplication, metadata: CommittedMetadata, partitions: Partitions) -> None:
        self._replication = replication
        self._replicas = replication.replicas
        self._metadata = metadata
        self._image = metadata.image
        self._partitions = partitions

    @property
    def followed_count(self) -> int:
        return len(self._replicas.followed)

    @property
    def offline_count(self) -> int:
        """Return how many assigned replicas are neither led nor followed with a usable log."""
        return len(self._replicas.unavailable()) + sum(
            not each.followed.log.directory.is_online for each in self._replicas.followed.values()
        )

    @property
    def isr_changes(self) -> tuple[int, int]:
        counts = self._replicas.counts
        return counts.isr_shrinks, counts.isr_expands

    def samples(self) -> Iterator[Sample]:
        """Yield the samples of led partitions, of followed ones, and of their fetchers."""
        yield from self._led()
        yield from self._followed()
        counts = self._replicas.counts
        yield table.FAILED_ISR_UPDATES, (), counts.failed_isr_updates
        yield table.REPLICATION_BYTES_IN, (), counts.bytes_in
        yield table.REPLICATION_BYTES_OUT, (), counts.bytes_out
        yield table.REASSIGNMENT_BYTES_IN, (), counts.added_bytes_in
        yield table.REASSIGNMENT_BYTES_OUT, (), counts.added_bytes_out
        applied_ms = self._metadata.last_timestamp_ms
        yield table.METADATA_TIMESTAMP, (), applied_ms
        yield table.METADATA_LAG, (), max(0, self._replication.reads.clock.now_ms() - applied_ms) if applied_ms else 0
        yield table.METADATA_LOAD_ERRORS, (), 0
        yield table.METADATA_APPLY_ERRORS, (), 0

    def _led(self) -> Iterator[Sample]:
        reassigning = 0
        for partition in list(self._partitions):
            registration = self._registration(partition.topic, partition.index)
            if registration is not None:
                reassigning += registration.is_reassigning
        yield table.REASSIGNING, (), reassigning

    def _registration(self, topic: str, index: int) -> PartitionRegistration | None:
        found = self._image.topic(topic)
        return None if found is None else found.partitions.get(index)

    def _followed(self) -> Iterator[Sample]:
        phases: Counter[Phase] = Counter()
        most = 0
        for key, partition in list(self._replicas.followed.items()):
            followed = partition.followed
            log = followed.log
            labels = (log.topic, str(log.partition))
            state = self._replication.fetchers.state(key)
            if state is not None:
                client_id, fetched = state
                phases[fetched.phase] += 1
                lag = max(0, followed.leader_high_watermark - log.log_end_offset)
                most = max(most, lag)
                yield table.FETCHER_LAG, (client_id, *labels), lag
            yield table.LOG_SIZE, labels, log.size_bytes
            yield table.LOG_START, labels, log.log_start_offset
            yield table.LOG_END, labels, log.log_end_offset
            yield table.LOG_SEGMENTS, labels, len(log.segments)
        yield table.MAX_LAG, _FETCHERS, most
        yield table.MIN_FETCH_RATE, _FETCHERS, min(self._replication.fetchers.rates(), default=0)
        yield table.FAILED_FETCHES, _FETCHERS, phases[Phase.FAILED]
        yield table.DEAD_FETCHERS, _FETCHERS, 0
