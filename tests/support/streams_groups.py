"""Streams groups without a broker: the harness of groups, with a test's topics and heartbeats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coordinator.group.modern.caller import Caller
from coordinator.group.shard import GroupEffects
from coordinator.group.streams.group import StreamsGroup
from coordinator.group.streams.heartbeat import heartbeat
from coordinator.group.streams.topology import TopicInfo
from protocol.messages.streams_group_heartbeat import (
    STREAMS_GROUP_HEARTBEAT,
    CopartitionGroup,
    KeyValue,
    Subtopology,
    TaskIds,
    Topology,
)
from protocol.messages.streams_group_heartbeat import TopicInfo as TopicInfoStruct
from protocol.schema import Struct
from tests.support.consumer_groups import Topics
from tests.support.groups import GroupHarness

#: subtopology -> partitions
TaskMap = Mapping[str, Iterable[int]]


def internal(name: str, partitions: int = 0, replicas: int = 0, **configs: str) -> Struct:
    """Return an internal topic as an application requests it; configuration names have underscores instead of dots."""
    return TopicInfoStruct(
        name=name,
        partitions=partitions,
        replication_factor=replicas,
        topic_configs=[KeyValue(key=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


def subtopology(
    subtopology_id: str,
    sources: Sequence[str] = (),
    *,
    sinks: Sequence[str] = (),
    repartition: Sequence[Struct] = (),
    changelogs: Sequence[Struct] = (),
    copartition: Sequence[tuple[Sequence[int], Sequence[int]]] = (),
    expressions: Sequence[str] = (),
) -> Struct:
    """Return a subtopology; `copartition`: indexes of sources and of repartition topics."""
    return Subtopology(
        subtopology_id=subtopology_id,
        source_topics=list(sources),
        source_topic_regex=list(expressions),
        state_changelog_topics=list(changelogs),
        repartition_sink_topics=list(sinks),
        repartition_source_topics=list(repartition),
        copartition_groups=[
            CopartitionGroup(source_topics=list(one), source_topic_regex=[], repartition_source_topics=list(other))
            for one, other in copartition
        ],
    )


def topology(*subtopologies: Struct, epoch: int = 0) -> Struct:
    """Return a topology."""
    return Topology(epoch=epoch, subtopologies=list(subtopologies))


def counted(t: str, **fields: Any) -> Struct:
    """Return a word count that reads a topic `t`: a repartition topic and a store."""
    changelog = internal(f"{t}-log", cleanup_policy="compact", retention_ms="1000")
    return topology(
        subtopology("0", [t], sinks=[f"{t}-rep"]),
        subtopology("1", repartition=[internal(f"{t}-rep")], changelogs=[changelog]),
        **fields,
    )


#: Lines are split into words, which pass a repartition topic and are counted in a store.
WORD_COUNT = topology(
    subtopology("0", ["t"], sinks=["app-rep"]),
    subtopology("1", repartition=[internal("app-rep")], changelogs=[internal("app-log", cleanup_policy="compact")]),
)
#: the same without internal topics: two subtopologies that read a topic each
PLAIN = topology(subtopology("0", ["t"]), subtopology("1", ["u"]))


def task_structs(tasks: TaskMap | None) -> list[Struct] | None:
    """Return tasks as a request has them."""
    if tasks is None:
        return None
    return [TaskIds(subtopology_id=each, partitions=list(partitions)) for each, partitions in tasks.items()]


def task_map(tasks: Iterable[Struct] | None) -> dict[str, list[int]] | None:
    """Return the tasks of an answer."""
    return None if tasks is None else {each.subtopology_id: each.partitions for each in tasks}


def request(
    member_id: str,
    epoch: int,
    *,
    told: Struct | None = None,
    active: TaskMap | None = None,
    standby: TaskMap | None = None,
    warmup: TaskMap | None = None,
    group_id: str = "g",
    **fields: Any,
) -> dict[str, Any]:
    """Return the fields of a heartbeat: a joining member sends its topology, others their tasks."""
    if epoch == 0:
        fields = {"rebalance_timeout_ms": 30_000, "process_id": f"process-{member_id}", **fields}
        active, standby, warmup = active or {}, standby or {}, warmup or {}
    elif active is not None:
        standby, warmup = standby or {}, warmup or {}
    return {
        "group_id": group_id,
        "member_id": member_id,
        "member_epoch": epoch,
        "topology": told,
        "active_tasks": task_structs(active),
        "standby_tasks": task_structs(standby),
        "warmup_tasks": task_structs(warmup),
        "endpoint_information_epoch": -1,
        **fields,
    }


@dataclass
class StreamsHarness(GroupHarness):
    """A shard with topics. `missing`: internal topics that the last heartbeat requires; `make_topics` creates them."""

    topics: Topics = field(default_factory=lambda: Topics({"t": 3, "u": 2}))

    def __post_init__(self) -> None:
        super().__post_init__()
        self.missing: Mapping[str, TopicInfo] = {}

    @property
    def group(self) -> StreamsGroup:
        """Return the group "g"."""
        group = self.shard.streams("g")
        assert group is not None
        return group

    def beat(self, member_id: str, epoch: int, **fields: Any) -> Struct:
        """Send a heartbeat (see `request`); a refused one returns its code and message."""
        sent = STREAMS_GROUP_HEARTBEAT.request(**request(member_id, epoch, **fields))

        def decide(effects: GroupEffects) -> Struct:
            outcome = heartbeat(self.shard, sent, Caller("client", "/127.0.0.1"), self.now, effects)
            self.missing = outcome.missing
            return outcome.response

        return self.decided(decide, STREAMS_GROUP_HEARTBEAT.response)

    def enter_streams(self, member_id: str, told: Struct = PLAIN, **fields: Any) -> Struct:
        """Send the first heartbeat of a member."""
        return self.beat(member_id, 0, told=told, **fields)

    def follow(self, member_id: str, **fields: Any) -> Struct:
        """Send a heartbeat of a member that has exactly its assigned tasks."""
        member = self.group.members[member_id]
        has = member.assigned
        return self.beat(member_id, member.epoch, active=has.active, standby=has.standby, warmup=has.warmup, **fields)

    def make_topics(self) -> None:
        """Create the internal topics that the last heartbeat required."""
        for topic in self.missing.values():
            self.topics.put(topic.name, topic.partitions)

    def settle(self, *members: str) -> None:
        """Let members follow their targets, as clients do, until nothing changes."""
        for _ in range(4 * len(members) + 4):
            for member_id in members:
                self.follow(member_id)
            if all(self.group.members[each].is_reconciled_to(self.group.epoch) for each in members):
                return
        raise AssertionError("never settled")


def statuses(answer: Struct) -> list[int]:
    """Return the status codes of an answer."""
    return [each.status_code for each in answer.status]
