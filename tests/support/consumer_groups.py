"""Consumer groups without a broker: the harness of groups, with a test's topics and heartbeats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coordinator.group.cluster import ConsumerGroupConfig, ShareGroupConfig, StreamsGroupConfig, Topic
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.heartbeat import answer_if_unchanged, heartbeat
from coordinator.group.modern.caller import Caller
from coordinator.group.shard import GroupEffects
from protocol.messages.consumer_group_heartbeat import CONSUMER_GROUP_HEARTBEAT, TopicPartitions
from protocol.schema import Struct
from tests.support.groups import GroupHarness

Partitions = Mapping[str, Sequence[int]]

#: the sender of all heartbeats
CALLER = Caller("client", "/127.0.0.1", "")


class Topics:
    """A cluster with a test's topics. The id of a topic is its padded name."""

    share = ShareGroupConfig()

    def __init__(self, topics: Mapping[str, int] | None = None) -> None:
        self.version = self.topics_version = self.new_topics_version = 0
        self.config = ConsumerGroupConfig(assignment_interval_ms=0)
        self.streams = StreamsGroupConfig(assignment_interval_ms=0, initial_rebalance_delay_ms=0)
        self._topics: dict[str, Topic] = {}
        for name, count in (topics or {}).items():
            self.put(name, count)

    def put(self, name: str, count: int) -> None:
        """Create a topic, or add partitions to one."""
        self.version += 1
        self.topics_version = self.version
        if name not in self._topics:
            self.new_topics_version = self.version
        self._topics[name] = Topic(name, topic_id(name), count)

    def remove(self, name: str) -> None:
        self.version += 1
        self.topics_version = self.version
        del self._topics[name]

    def topic(self, name: str) -> Topic | None:
        return self._topics.get(name)

    def topic_by_id(self, wanted: bytes) -> Topic | None:
        return next((topic for topic in self._topics.values() if topic.topic_id == wanted), None)

    def topic_names(self) -> Iterable[str]:
        return self._topics

    def share_config(self, group_id: str) -> ShareGroupConfig:
        return self.share

    def consumer_config(self, group_id: str) -> ConsumerGroupConfig:
        return self.config

    def streams_config(self, group_id: str) -> StreamsGroupConfig:
        return self.streams


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"\1")


def by_name(partitions: Mapping[bytes, Iterable[int]]) -> dict[str, list[int]]:
    """Return partitions by topic name instead of topic id."""
    return {topic.rstrip(b"\1").decode(): sorted(indexes) for topic, indexes in partitions.items()}


@dataclass
class ConsumerHarness(GroupHarness):
    """A shard with topics. `may_describe`: whether members may describe a topic."""

    topics: Topics = field(default_factory=lambda: Topics({"t": 4}))
    may_describe: Callable[[str], bool] | None = None

    @property
    def group(self) -> ConsumerGroup:
        """Return the group "g"."""
        group = self.shard.consumer("g")
        assert group is not None
        return group

    def beat(
        self,
        member_id: str,
        epoch: int,
        owned: Partitions | None = None,
        *,
        topics: Sequence[str] | None = None,
        group_id: str = "g",
        version: int = 1,
        **fields: Any,
    ) -> Struct:
        """Send a heartbeat; a refused one returns its code and message."""
        request = CONSUMER_GROUP_HEARTBEAT.request(
            group_id=group_id,
            member_id=member_id,
            member_epoch=epoch,
            subscribed_topic_names=None if topics is None else list(topics),
            topic_partitions=None
            if owned is None
            else [TopicPartitions(topic_id=topic_id(name), partitions=list(each)) for name, each in owned.items()],
            **fields,
        )
        caller = CALLER._replace(fresh_id=f"uuid{next(self._uuids)}", may_describe=self.may_describe)

        def decide(effects: GroupEffects) -> Struct:
            unchanged = answer_if_unchanged(self.shard, request, caller, self.now)
            return unchanged or heartbeat(self.shard, request, version, caller, self.now, effects)

        return self.decided(decide, CONSUMER_GROUP_HEARTBEAT.response)

    def enter_consumer(self, member_id: str, topics: Sequence[str] | None = ("t",), **fields: Any) -> Struct:
        """Send the first heartbeat of a member."""
        return self.beat(member_id, 0, {}, topics=topics, **{"rebalance_timeout_ms": 30_000, **fields})

    def settle(self, members: Sequence[str], group_id: str = "g") -> None:
        """Let members follow their targets, as clients do, until nothing changes."""
        group = self.shard.consumer(group_id)
        assert group is not None
        for _ in range(4 * len(members) + 4):
            for member_id in members:
                member = group.members[member_id]
                self.beat(member_id, member.epoch, by_name(member.assigned), group_id=group_id)
            if all(group.members[each].is_reconciled_to(group.epoch) for each in members):
                return
        raise AssertionError("never settled")


def assigned(answer: Struct) -> dict[str, list[int]] | None:
    """Return the assignment of an answer, None if it has none."""
    if answer.assignment is None:
        return None
    return by_name({topic.topic_id: topic.partitions for topic in answer.assignment.topic_partitions})
