"""What groups see of the cluster: topics, and the settings that a group has of its own.

Like time it comes from outside. A shard holds one view for all of its life; what the view tells may change between two
decisions, never within one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

import msgspec


class Topic(NamedTuple):
    """A topic. `racks`: of each partition the racks of its replicas, sorted; () where no broker tells its rack."""

    name: str
    topic_id: bytes
    partition_count: int
    racks: tuple[tuple[str, ...], ...] = ()


class ConsumerGroupConfig(msgspec.Struct, frozen=True):
    """A consumer group's settings, its own or the broker's; names and defaults are Kafka's."""

    session_timeout_ms: int = 45_000  # consumer.session.timeout.ms
    heartbeat_interval_ms: int = 5_000  # consumer.heartbeat.interval.ms
    assignment_interval_ms: int = 1_000  # consumer.assignment.interval.ms


class ShareGroupConfig(msgspec.Struct, frozen=True):
    """A share group's settings that its coordinator obeys, its own or the broker's; names and defaults are Kafka's."""

    session_timeout_ms: int = 45_000  # share.session.timeout.ms
    heartbeat_interval_ms: int = 5_000  # share.heartbeat.interval.ms
    assignment_interval_ms: int = 1_000  # share.assignment.interval.ms


class StreamsGroupConfig(msgspec.Struct, frozen=True):
    """A streams group's settings, its own or the broker's; names and defaults are Kafka's."""

    session_timeout_ms: int = 45_000  # streams.session.timeout.ms
    heartbeat_interval_ms: int = 5_000  # streams.heartbeat.interval.ms
    assignment_interval_ms: int = 1_000  # streams.assignment.interval.ms
    initial_rebalance_delay_ms: int = 3_000  # streams.initial.rebalance.delay.ms
    num_standby_replicas: int = 0  # streams.num.standby.replicas


class Cluster(Protocol):
    """The view. Versions are offsets of the metadata log."""

    @property
    def version(self) -> int:
        """Of all that the view tells."""

    @property
    def topics_version(self) -> int:
        """Of the last change of any topic, its partitions or their replicas' racks."""

    @property
    def new_topics_version(self) -> int:
        """Of the last creation of a topic."""

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
