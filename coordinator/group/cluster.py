"""The cluster as groups see it: its topics, and the settings of a group.

The caller provides it, as it provides the time. A shard has one view for all of its life. The view may change between
two decisions, never during one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

import msgspec


class Topic(NamedTuple):
    """A topic. `racks`: for each partition the sorted racks of its replicas; () if no broker has a rack."""

    name: str
    topic_id: bytes
    partition_count: int
    racks: tuple[tuple[str, ...], ...] = ()


class ConsumerGroupConfig(msgspec.Struct, frozen=True):
    """The settings of a consumer group: its own, else the broker's. Names and defaults are Kafka's."""

    session_timeout_ms: int = 45_000  # consumer.session.timeout.ms
    heartbeat_interval_ms: int = 5_000  # consumer.heartbeat.interval.ms
    assignment_interval_ms: int = 1_000  # consumer.assignment.interval.ms


class ShareGroupConfig(msgspec.Struct, frozen=True):
    """The settings of a share group that its coordinator uses: its own, else the broker's. Named as in Kafka."""

    session_timeout_ms: int = 45_000  # share.session.timeout.ms
    heartbeat_interval_ms: int = 5_000  # share.heartbeat.interval.ms
    assignment_interval_ms: int = 1_000  # share.assignment.interval.ms


class StreamsGroupConfig(msgspec.Struct, frozen=True):
    """The settings of a streams group: its own, else the broker's. Names and defaults are Kafka's."""

    session_timeout_ms: int = 45_000  # streams.session.timeout.ms
    heartbeat_interval_ms: int = 5_000  # streams.heartbeat.interval.ms
    assignment_interval_ms: int = 1_000  # streams.assignment.interval.ms
    initial_rebalance_delay_ms: int = 3_000  # streams.initial.rebalance.delay.ms
    num_standby_replicas: int = 0  # streams.num.standby.replicas
    acceptable_recovery_lag: int = 10_000  # streams.acceptable.recovery.lag
    task_offset_interval_ms: int = 60_000  # streams.task.offset.interval.ms
    rack_aware_tags: tuple[str, ...] = ()  # streams.rack.aware.assignment.tags


class Cluster(Protocol):
    """The view of the cluster. Versions are offsets of the metadata log."""

    @property
    def version(self) -> int:
        """The version of the view as a whole."""

    @property
    def topics_version(self) -> int:
        """The version of the last change of a topic, its partitions, or the racks of their replicas."""

    @property
    def new_topics_version(self) -> int:
        """The version of the last creation of a topic."""

    def topic(self, name: str) -> Topic | None: ...

    def topic_by_id(self, topic_id: bytes) -> Topic | None: ...

    def topic_names(self) -> Iterable[str]: ...

    def consumer_config(self, group_id: str) -> ConsumerGroupConfig: ...

    def streams_config(self, group_id: str) -> StreamsGroupConfig: ...

    def share_config(self, group_id: str) -> ShareGroupConfig: ...


class NoTopics:
    """A cluster without topics, for shards that need none."""

    version = topics_version = new_topics_version = 0

    def topic(self, name: str) -> Topic | None:
        return None

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        return None

    def topic_names(self) -> Iterable[str]:
        return ()

    def consumer_config(self, group_id: str) -> ConsumerGroupConfig:
        return ConsumerGroupConfig()

    def streams_config(self, group_id: str) -> StreamsGroupConfig:
        return StreamsGroupConfig()

    def share_config(self, group_id: str) -> ShareGroupConfig:
        return ShareGroupConfig()
