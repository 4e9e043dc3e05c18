"""Members of streams groups that come back, report offsets and have tags: both brokers give the same answers.

Static members (KIP-345 for KIP-1071), offsets of tasks, client tags, assignors. Each step of a scenario compares both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from protocol.messages.delete_groups import DELETE_GROUPS
from protocol.messages.describe_configs import DESCRIBE_CONFIGS
from protocol.messages.incremental_alter_configs import INCREMENTAL_ALTER_CONFIGS
from protocol.messages.streams_group_heartbeat import Endpoint, KeyValue, TaskOffset
from protocol.messages.streams_group_topology_description_update import (
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
    TopologyDescription,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from tests.support.brokers_of_4_4 import needs_4_4
from tests.support.pairs import Pair
from tests.support.scale import scaled
from tests.support.streams_groups import counted
from tests.support.streams_session import PROPERTIES, StreamsSession

pytestmark = needs_4_4

Scenario = Callable[[Pair, StreamsSession, str], None]
IN_MEMORY = "org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin"
ALL = {"0": [0, 1, 2], "1": [0, 1, 2]}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    properties = {
        **PROPERTIES,
        "group.streams.max.size": "4",
        "group.streams.topology.description.plugin.class": IN_MEMORY,
    }
    made = Pair(tmp_path_factory.mktemp("streams"), properties)
    yield made
    made.close()


def offsets(**tasks: dict[int, int]) -> list[Any]:
    """Return offsets of the tasks of subtopologies, named `s0` and so on."""
    return [
        TaskOffset(subtopology_id=name.removeprefix("s"), partition=partition, offset=offset)
        for name, reported in tasks.items()
        for partition, offset in reported.items()
    ]


# -- static members ---------------------------------------------------------------------------------------------------


def a_static_member_comes_back(pair: Pair, s: StreamsSession, t: str) -> None:
    """It has its tasks at once, under another member id, and no other member moves."""
    s.enter(t, instance_id="one")
    s.beat("b", 0, told=counted(t), instance_id="two")
    for member_id in "abab":
        s.follow(member_id)
    s.describe()
    s.beat("a", -2, instance_id="one")
    s.describe()
    s.follow("b", instance_id="two")
    s.beat("c", 0, told=counted(t), instance_id="one", process_id="process-a")
    s.describe()
    s.follow("c", instance_id="one")
    s.follow("b")
    s.beat("c", -2, instance_id="one")
    s.beat("c", 0, told=counted(t), instance_id="one", process_id="process-a")
    s.describe()
    s.beat("c", -1, instance_id="one")
    s.follow("b")
    s.describe()


def an_instance_has_one_member(pair: Pair, s: StreamsSession, t: str) -> None:
    """Others are fenced until it has left."""
    s.enter(t, instance_id="one")
    s.beat("c", 0, told=counted(t), instance_id="one")
    s.beat("a", 0, told=counted(t), instance_id="one")
    s.beat("c", 3, active={}, instance_id="one")
    s.beat("c", -1, instance_id="one")
    s.beat("c", -2, instance_id="one")
    s.beat("c", 3, active={}, instance_id="none")
    s.beat("c", -2, instance_id="none")
    s.beat("c", -1, instance_id="none")
    s.beat("a", 3, active=ALL, instance_id="one")
    s.beat("a", 4, active=ALL, instance_id="one")
    s.beat("a", -2, instance_id="one")
    s.beat("a", 3, active=ALL, instance_id="one")
    s.beat("a", -2, instance_id="one")
    s.beat("c", 0, told=counted(t), instance_id="one")
    s.beat("a", 3, active=ALL, instance_id="one")
    s.beat("a", 3, active=ALL)
    s.beat("a", -1)
    s.describe()
    s.beat("c", -1)
    s.describe()
    s.beat("c", 0, told=counted(t), instance_id="one")


def what_a_static_member_changes(pair: Pair, s: StreamsSession, t: str) -> None:
    """Only changes that may move tasks make the others rebalance."""
    s.enter(t, instance_id="one")
    s.beat("b", 0, told=counted(t), instance_id="two")
    for member_id in "abab":
        s.follow(member_id)
    tags = [KeyValue(key="zone", value="z")]
    for member_id, fields in (
        ("c", {"process_id": "process-a", "rebalance_timeout_ms": 7}),
        ("d", {"process_id": "process-d"}),
        ("e", {"process_id": "process-d", "rack_id": "r"}),
        ("f", {"process_id": "process-d", "client_tags": tags}),
        ("g", {"process_id": "process-d", "user_endpoint": Endpoint(host="h", port=1)}),
        ("h", {"process_id": "process-d"}),
    ):
        gone = s.describe()["members"]
        (old,) = [each["member_id"] for each in gone if each["instance_id"] == "one"]
        s.beat(old, -2, instance_id="one")
        s.beat(member_id, 0, told=counted(t), instance_id="one", **fields)
        for _ in range(2):
            s.follow(member_id, instance_id="one")
            s.follow("b")
        s.describe()
    s.beat("b", 0, told=counted(t), instance_id="three", process_id="process-b")
    s.beat("h", 0, told=counted(t), process_id="process-d")
    s.beat("x", 0, told=counted(t), instance_id="two")
    s.describe()


def leave_while_tasks_move(pair: Pair, s: StreamsSession, t: str) -> None:
    """A static member leaves before it has given up its tasks, and comes back."""
    s.enter(t, instance_id="one")
    s.beat("b", 0, told=counted(t), instance_id="two")
    s.follow("a")
    s.describe()
    s.beat("a", -2, instance_id="one")
    s.describe()
    s.beat("b", 4, active={}, instance_id="two")
    s.beat("c", 0, told=counted(t), instance_id="one", process_id="process-a")
    s.follow("b")
    s.describe()
    s.beat("b", -2, instance_id="two")
    s.beat("c", -2, instance_id="one")
    s.describe()
    s.beat("b", 0, told=counted(t))
    s.describe()


def a_full_group(pair: Pair, s: StreamsSession, t: str) -> None:
    """Static members and known ones may come back to a group that has no room."""
    s.enter(t, instance_id="one")
    for member_id in "bcd":
        s.beat(member_id, 0, told=counted(t))
    s.beat("e", 0, told=counted(t))
    s.beat("e", 0, told=counted(t), instance_id="two")
    s.beat("d", 0, told=counted(t))
    s.beat("a", -2, instance_id="one")
    s.beat("e", 0, told=counted(t))
    s.beat("e", 0, told=counted(t), instance_id="one", process_id="process-a")


def commits_of_static_members(pair: Pair, s: StreamsSession, t: str) -> None:
    """A member that has left may not commit, except at its epoch."""
    s.enter(t, instance_id="one")
    for epoch in (3, 2, 0, -1, -2):
        s.commit("a", epoch, t, 0)
        s.fetch("a", epoch)
    s.beat("a", -2, instance_id="one")
    for epoch in (3, 2, 0, -1, -2):
        s.commit("a", epoch, t, 0)
        s.fetch("a", epoch)
    s.beat("c", 0, told=counted(t), instance_id="one")
    s.commit("a", 3, t, 0)
    for epoch in (3, 2, 0, -1, -2):
        s.commit("c", epoch, t, 0)


def unknown_members_shut_down(pair: Pair, s: StreamsSession, t: str) -> None:
    """A member that is not in the group can end the application, too."""
    s.enter(t)
    s.beat("x", -1, shutdown_application=True)
    s.follow("a")


# -- offsets, tags, assignors -----------------------------------------------------------------------------------------


def tasks_go_where_their_state_is(pair: Pair, s: StreamsSession, t: str) -> None:
    """Offsets of tasks decide between members without tasks, and are described."""
    s.enter(t, task_offsets=offsets(s1={0: 5}))
    s.describe()
    reported = offsets(s1={2: 7, 0: 10**15}, s9={-1: -1})
    s.beat("a", 3, active=ALL, task_offsets=reported, task_end_offsets=offsets(s1={0: 9}))
    s.describe()
    s.beat("a", 3, active=ALL, task_offsets=[*reported, *offsets(s1={2: 8})])
    s.beat("a", 3, active=ALL, task_end_offsets=[*reported, *offsets(s9={-1: 8})])
    s.beat("a", 3, active={"7": [0]}, task_offsets=[])
    s.beat("a", 3, active=ALL, task_end_offsets=[])
    s.describe()
    s.configure("a", 3, ALL, streams_num_standby_replicas=1)
    s.beat("b", 0, told=counted(t), task_offsets=offsets(s1={0: 3, 1: 4}))
    s.beat("c", 0, told=counted(t), task_offsets=offsets(s1={0: 9, 1: 1, 2: 2}))
    s.describe()
    for member_id in ("a", "b", "c") * 3:
        s.follow(member_id)
    s.describe()
    s.beat("a", -1)
    for member_id in ("b", "c") * 3:
        s.follow(member_id)
    s.describe()


def standbys_become_active(pair: Pair, s: StreamsSession, t: str) -> None:
    """A member that has a standby keeps its state when the task becomes active, and the other way round."""
    s.enter(t)
    s.configure("a", 3, ALL, streams_num_standby_replicas=1)
    s.beat("b", 0, told=counted(t))
    for member_id in ("a", "b") * 3:
        s.follow(member_id)
    s.describe()
    s.beat("a", -1)
    s.beat("c", 0, told=counted(t), process_id="process-b")
    for member_id in ("b", "c") * 3:
        s.follow(member_id)
    s.describe()
    s.beat("d", 0, told=counted(t))
    for member_id in ("b", "c", "d") * 4:
        s.follow(member_id)
        s.describe()


def missing_tags(pair: Pair, s: StreamsSession, t: str) -> None:
    """Members of version 1 learn which tags they lack. A change of the tags is a rebalance."""
    s.enter(t, client_tags=[KeyValue(key="zone", value="z")])
    s.configure("a", 3, ALL, streams_rack_aware_assignment_tags=" zone , rack,cluster")
    s.describe()
    s.beat("a", 4, active=ALL, version=0)
    tags = [KeyValue(key=key, value="") for key in ("cluster", "rack", "zone")]
    s.beat("b", 0, told=counted(t), client_tags=tags)
    s.beat("c", 0, told=counted(t), version=0)
    for member_id in ("a", "b", "c") * 2:
        s.follow(member_id)
    known = s.describe()["members"][0]
    tasks = known["assignment"]["active_tasks"]
    s.configure("a", known["member_epoch"], tasks, streams_rack_aware_assignment_tags="")
    s.describe()


def warmup_tasks(pair: Pair, s: StreamsSession, t: str) -> None:
    """No settings make 4.4 hand out warm-up tasks; members that report some are believed."""
    s.enter(t)
    wanted = {"streams_acceptable_recovery_lag": 0, "streams_task_offset_interval_ms": 15_000}
    s.configure("a", 3, ALL, streams_num_warmup_replicas=20, **wanted)
    ends = offsets(s1={0: 10**6, 1: 10**6, 2: 9})
    s.beat("a", 3, active=ALL, task_offsets=offsets(s1={0: 0, 1: 0, 2: 0}), task_end_offsets=ends)
    s.beat("b", 0, told=counted(t), task_offsets=offsets(s1={0: 10**6}))
    for member_id in ("a", "b") * 3:
        s.follow(member_id)
    s.describe()
    s.follow("b", warmup={"1": [0]})
    s.follow("b", warmup={"1": [9]})


def assignors(pair: Pair, s: StreamsSession, t: str) -> None:
    """A group chooses one of the broker's assignors."""
    s.enter(t)
    for name in ("sticky", "none", "", "Sticky", "sticky,other", "highly_available", "com.example.Assignor"):
        config = {"name": "streams.assignor.name", "config_operation": 0, "value": name}
        resource = {"resource_type": 32, "resource_name": s.group_id, "configs": [config]}
        pair.same(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)
    wanted = {"resource_type": 32, "resource_name": s.group_id, "configuration_keys": ["streams.assignor.name"]}
    pair.until_same(
        lambda: pair.ask(DESCRIBE_CONFIGS, 4, resources=[wanted], include_synonyms=True, include_documentation=False)
    )
    s.follow("a")
    s.describe()


def descriptions(pair: Pair, s: StreamsSession, t: str) -> None:
    """Only members describe the topology, and only at its epoch (KIP-1331)."""
    nodes = [
        TopologyDescriptionNode(
            name="in", node_type=1, source_topics=[t, t], sink_topic=None, stores=[], successors=["out"]
        ),
        TopologyDescriptionNode(
            name="out", node_type=3, source_topics=[], sink_topic=f"{t}-rep", stores=[], successors=[]
        ),
    ]
    part = TopologyDescriptionSubtopology(subtopology_id="0", nodes=nodes)
    description = TopologyDescription(subtopologies=[part], global_stores=[])

    def update(member_id: str, epoch: int = 0, group_id: str = s.group_id) -> None:
        pair.same(
            STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
            0,
            group_id=group_id,
            member_id=member_id,
            topology_epoch=epoch,
            topology_description=description,
        )
        s.describe()

    s.enter(t, instance_id="one")
    update("x")
    update("")
    update("a", group_id="none")
    update("a", group_id="")
    update("a", epoch=1)
    update("a", epoch=-1)
    s.beat("a", -2, instance_id="one")
    s.beat("c", 0, told=counted(t), instance_id="one")
    update("a")
    s.beat("c", -2, instance_id="one")
    update("c")
    s.beat("c", -1, instance_id="one")
    update("c")
    s.beat("d", 0, told=counted(t))
    s.beat("d", -1)
    pair.same(DELETE_GROUPS, 3, groups_names=[s.group_id])
    update("d")
    s.beat("e", 0, told=counted(t))
    s.describe()


SCENARIOS: list[Scenario] = [
    a_static_member_comes_back,
    an_instance_has_one_member,
    what_a_static_member_changes,
    leave_while_tasks_move,
    a_full_group,
    commits_of_static_members,
    unknown_members_shut_down,
    tasks_go_where_their_state_is,
    standbys_become_active,
    missing_tags,
    warmup_tasks,
    assignors,
    descriptions,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: str(scenario.__name__))
def test_both_answer_alike(pair: Pair, name: str, scenario: Scenario) -> None:
    scenario(pair, StreamsSession(pair, name, {name: 3}), name)


def test_random_members_come_back(pair: Pair, name: str) -> None:
    """Static members leave and are replaced, others join and leave, all with offsets, endpoints, and standbys."""
    random = Random(1107)
    for round_number in range(scaled(2)):
        t = f"{name}-{round_number}"
        s = StreamsSession(pair, t, {t: 3})
        s.enter(t, instance_id="i0")
        s.configure("a", 3, ALL, streams_num_standby_replicas=random.randrange(3))
        holders: dict[str | None, str] = {"i0": "a"}
        left: set[str | None] = set()
        for number in range(40):
            instance_id = random.choice([None, "i0", "i1", "i2"])
            member_id, chance = holders.get(instance_id), random.random()
            if member_id is None or instance_id in left or chance < 0.1:
                if member_id is not None and instance_id is not None and instance_id not in left:
                    s.beat(member_id, -2, instance_id=instance_id)
                joins = {
                    "told": counted(t),
                    "process_id": random.choice("pqr"),
                    "user_endpoint": random.choice([None, Endpoint(host=f"h{number}", port=1)]),
                    "task_offsets": offsets(s1={random.randrange(3): random.randrange(9)}),
                }
                holders[instance_id] = f"m{number}"
                left.discard(instance_id)
                if instance_id is None and member_id is not None:
                    s.beat(member_id, -1)
                s.beat(f"m{number}", 0, instance_id=instance_id, **joins)
            elif chance < 0.2 and instance_id is not None:
                s.beat(member_id, -2, instance_id=instance_id)
                left.add(instance_id)
            elif chance < 0.25 and len(holders) > 1:
                s.beat(member_id, -1, instance_id=instance_id)
                del holders[instance_id]
            else:
                s.follow(member_id, instance_id=instance_id, endpoint_information_epoch=random.randrange(4))
            s.describe()
