"""A streams group at a pybroker and at an Apache Kafka: both get each request and must give the same answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any, TypeVar

from protocol.error_codes import ErrorCode
from protocol.messages.delete_groups import DELETE_GROUPS
from protocol.messages.find_coordinator import FIND_COORDINATOR
from protocol.messages.incremental_alter_configs import INCREMENTAL_ALTER_CONFIGS
from protocol.messages.offset_commit import OFFSET_COMMIT
from protocol.messages.offset_fetch import OFFSET_FETCH
from protocol.messages.streams_group_describe import STREAMS_GROUP_DESCRIBE
from protocol.messages.streams_group_heartbeat import STREAMS_GROUP_HEARTBEAT
from protocol.schema import Struct
from tests.support.brokers import RunningBroker
from tests.support.eventually import eventually
from tests.support.pairs import Pair
from tests.support.settled import wait_for_topic
from tests.support.streams_groups import TaskMap, counted, subtopology, task_map, topology
from tests.support.streams_groups import request as heartbeat_fields

#: targets are computed at once, and no member expires on a slow machine
PROPERTIES = {
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.max.session.timeout.ms": "600000",
    "group.streams.session.timeout.ms": "600000",
    "group.streams.min.heartbeat.interval.ms": "100",
}

_probes = count()

T = TypeVar("T")


def has_topics(answer: Struct) -> bool:
    """Return whether no topic is missing."""
    return not {1, 3} & {each.status_code for each in answer.status}


class StreamsSession:
    """A group of its own. The constructor creates `topics`, the source topics."""

    def __init__(self, pair: Pair, group_id: str, topics: Mapping[str, int]) -> None:
        self._pair = pair
        self.group_id = group_id
        for broker in pair.brokers:
            eventually(partial(self._has_coordinator, broker))
        if topics:
            self.create_topics(topics)

    def create_topics(self, topics: Mapping[str, int]) -> None:
        """Create topics, and wait until the coordinators know them."""
        self._pair.create_topics(topics)
        told = topology(*(subtopology(name, [name]) for name in topics))
        probe = f"probe-{next(_probes)}"
        for broker in self._pair.brokers:

            def knows(broker: RunningBroker = broker) -> bool:
                answer = self._beat(broker, "probe", 0, told=told, group_id=probe)
                return not answer.error_code and not answer.status

            eventually(knows)
            self._beat(broker, "probe", -1, group_id=probe)
            self._pair.client(broker).call(DELETE_GROUPS, 2, groups_names=[probe])

    # -- requests ---------------------------------------------------------------------------------------------------

    def beat(
        self, member_id: str, epoch: int, *, until: Callable[[Struct], bool] = lambda _: True, **fields: Any
    ) -> dict[str, Any]:
        """Send a heartbeat (see tests.support.streams_groups.request) until the answer satisfies `until`: Apache Kafka
        may need a moment.
        """
        fields.setdefault("group_id", self.group_id)
        found = []
        for broker in self._pair.brokers:
            answer = self._beat(broker, member_id, epoch, **fields)
            if not until(answer):
                answer = eventually(partial(self._beat, broker, member_id, epoch, **fields), until=until)
            found.append(_told(answer))
        return self._same(f"{member_id} at {epoch} {fields}", found)

    def enter(self, t: str, member_id: str = "a", **fields: Any) -> None:
        """Let the first member join, which gets all tasks."""
        self.beat(member_id, 0, told=counted(t), **fields)
        self.wait_for_internal_topics(t)
        self.beat(member_id, 2, active={}, until=has_topics)

    def wait_for_internal_topics(self, t: str) -> None:
        """Wait for the internal topics of the word count that reads `t`."""
        for broker in self._pair.brokers:
            for name in (f"{t}-rep", f"{t}-log"):
                wait_for_topic(broker, name, 3)

    def follow(self, member_id: str, **fields: Any) -> dict[str, Any]:
        """Send a heartbeat of a member that has exactly its assigned tasks."""
        (member,) = [each for each in self.describe()["members"] if each["member_id"] == member_id]
        has = member["assignment"]
        return self.beat(
            member_id, member["member_epoch"], active=has["active_tasks"], standby=has["standby_tasks"], **fields
        )

    def describe(self, group_id: str | None = None, *, settles: bool = False) -> dict[str, Any]:
        """Describe the group. `settles`: Apache Kafka answered the change before it was in its log, and describes it
        later.
        """
        wanted = self.group_id if group_id is None else group_id
        if settles:
            eventually(lambda: len({str(each) for each in self._descriptions(wanted)}) == 1)
        return self._same(f"describe {wanted}", self._descriptions(wanted))

    def _descriptions(self, wanted: str) -> list[dict[str, Any]]:
        asked = STREAMS_GROUP_DESCRIBE.request(group_ids=[wanted], include_topology_description=True)
        answers = self._pair.each(lambda broker: self._pair.client(broker).call(STREAMS_GROUP_DESCRIBE, 1, asked))
        return [_described(answer.groups[0]) for answer in answers]

    def commit(self, member_id: str, epoch: int, topic: str, partition: int, *, version: int = 9) -> str:
        """Return the error of committing an offset."""
        partitions = [{"partition_index": partition, "committed_offset": 1}]
        answer = self._pair.same(
            OFFSET_COMMIT,
            version,
            group_id=self.group_id,
            member_id=member_id,
            generation_id_or_member_epoch=epoch,
            topics=[{"name": topic, "partitions": partitions}],
        )
        return ErrorCode(answer.topics[0].partitions[0].error_code).name

    def fetch(self, member_id: str | None, epoch: int) -> str:
        """Return the error of fetching offsets."""
        wanted = {"group_id": self.group_id, "member_id": member_id, "member_epoch": epoch, "topics": None}
        answers = self._pair.ask(OFFSET_FETCH, 9, groups=[wanted], require_stable=False)
        return self._same("fetch", [ErrorCode(each.groups[0].error_code).name for each in answers])

    def configure(self, member_id: str, epoch: int, active: TaskMap, **configs: Any) -> None:
        """Set configurations, and wait until heartbeats see all: in Kafka, one may see the interval only."""
        interval_ms = 100 + next(_probes)
        wanted = {key.replace("_", "."): str(value) for key, value in configs.items()}
        wanted["streams.heartbeat.interval.ms"] = str(interval_ms)
        changes = [{"name": name, "config_operation": 0, "value": value} for name, value in wanted.items()]
        resource = {"resource_type": 32, "resource_name": self.group_id, "configs": changes}
        self._pair.ask(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)
        for broker in self._pair.brokers:
            beat = partial(self._beat, broker, member_id, epoch, active=active)
            eventually(beat, until=lambda answer: answer.heartbeat_interval_ms == interval_ms)
        self.beat(member_id, epoch, active=active)

    # -- both ---------------------------------------------------------------------------------------------------------

    def _beat(self, broker: RunningBroker, member_id: str, epoch: int, **fields: Any) -> Struct:
        fields.setdefault("group_id", self.group_id)
        version = fields.pop("version", 1)
        sent = heartbeat_fields(member_id, epoch, **fields)
        return self._pair.client(broker).call(STREAMS_GROUP_HEARTBEAT, version, **sent)

    def _has_coordinator(self, broker: RunningBroker) -> bool:
        client = self._pair.client(broker)
        answer = client.call(FIND_COORDINATOR, 4, key_type=0, coordinator_keys=[self.group_id])
        is_there = not answer.coordinators[0].error_code
        return is_there and bool(self._beat(broker, "nobody", 7).error_code == ErrorCode.GROUP_ID_NOT_FOUND)

    def _same(self, what: str, found: Sequence[T]) -> T:
        ours, kafka = found[0], found[-1]  # a pair without Kafka has one answer
        assert ours == kafka, f"{what}\n  ours:  {ours}\n  kafka: {kafka}"
        return ours


def _told(answer: Struct) -> dict[str, Any]:
    """Return the whole answer; tasks and endpoints in any order: that of Kafka depends on hash tables."""
    found: dict[str, Any] = _plain(answer)
    found |= {name: task_map(getattr(answer, name)) for name in ("active_tasks", "standby_tasks", "warmup_tasks")}
    endpoints = found["partitions_by_user_endpoint"] or []
    for each in endpoints:
        each["active_partitions"].sort(key=str)
        each["standby_partitions"].sort(key=str)
    endpoints.sort(key=str)
    return found


def _described(group: Struct) -> dict[str, Any]:
    """Return the whole description; members are sorted by id."""
    found: dict[str, Any] = _plain(group)
    found["members"].sort(key=lambda member: member["member_id"])
    for member in found["members"]:
        for each in ("assignment", "target_assignment"):
            member[each] = {
                role: {task["subtopology_id"]: task["partitions"] for task in tasks}
                for role, tasks in member[each].items()
            }
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return {field.name: _plain(getattr(value, field.name)) for field in value.struct_type.fields}
    return [_plain(each) for each in value] if isinstance(value, list) else value
