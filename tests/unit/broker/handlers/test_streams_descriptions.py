"""Streams groups from version 1 on: descriptions of topologies, tags, lags, and offsets of tasks."""

from __future__ import annotations

from typing import Any

import pytest

from broker.handlers.streams_group_topology_description_update import NO_PLUGIN
from coordinator.group.streams.configured import Status
from coordinator.group.streams.descriptions import FIRST_WAIT_MS
from metadata.image import ResourceType
from protocol.error_codes import ErrorCode
from protocol.messages.streams_group_describe import STREAMS_GROUP_DESCRIBE
from protocol.messages.streams_group_heartbeat import STREAMS_GROUP_HEARTBEAT, KeyValue, TaskOffset
from protocol.messages.streams_group_topology_description_update import (
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from protocol.schema import Struct
from tests.support.group_broker import GroupBroker
from tests.support.streams_groups import request, subtopology, topology

PLAIN = topology(subtopology("0", ["t"]))
PLUGIN = "group.streams.topology.description.plugin.class"
TAGS = "group.streams.rack.aware.assignment.tags"


def make_broker(**settings: Any) -> GroupBroker:
    broker = GroupBroker(settings)
    broker.controller.add("t")
    return broker


@pytest.fixture
def broker() -> GroupBroker:
    return make_broker(**{PLUGIN: "org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin"})


def beat(broker: GroupBroker, epoch: int, version: int = 1, **fields: Any) -> Struct:
    told = PLAIN if epoch == 0 else None
    return broker.call(STREAMS_GROUP_HEARTBEAT, version, **request("m", epoch, told=told, **fields))


def node(name: str, node_type: int, **fields: Any) -> Struct:
    return TopologyDescriptionNode(name=name, node_type=node_type, **fields)


def description(*nodes: Struct, stores: list[Struct] | None = None) -> Struct:
    parts = [TopologyDescriptionSubtopology(subtopology_id="0", nodes=list(nodes))]
    return TopologyDescription(subtopologies=parts, global_stores=stores or [])


def update(broker: GroupBroker, described: Struct, epoch: int = 0, **ids: str) -> tuple[ErrorCode, str | None]:
    named = {"group_id": "g", "member_id": "m", **ids}
    answer = broker.call(
        STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, 0, **named, topology_epoch=epoch, topology_description=described
    )
    return ErrorCode(answer.error_code), answer.error_message


def describe(broker: GroupBroker, version: int = 1, group_id: str = "g", include: bool = True) -> Struct:
    fields = {"include_topology_description": include} if version else {}
    (group,) = broker.call(STREAMS_GROUP_DESCRIBE, version, group_ids=[group_id], **fields).groups
    return group


SOURCE = node("in", 1, source_topics=["t", "t"], successors=["work"], stores=["no"], sink_topic="no")
WORKER = node("work", 2, stores=["s"], successors=["out"], source_topics=["no"])
SINK = node("out", 3, sink_topic="u", stores=["no"])


# -- descriptions ------------------------------------------------------------------------------------------------------


def test_a_member_is_asked_for_the_description(broker: GroupBroker) -> None:
    """KIP-1331: once, then again after a wait that doubles, until it is stored."""
    assert beat(broker, 0).topology_description_required
    assert not beat(broker, 2).topology_description_required
    broker.advance(FIRST_WAIT_MS)
    assert beat(broker, 2).topology_description_required
    broker.advance(FIRST_WAIT_MS)
    assert not beat(broker, 2).topology_description_required
    broker.advance(FIRST_WAIT_MS)
    assert beat(broker, 2).topology_description_required
    assert update(broker, description(SOURCE)) == (ErrorCode.NONE, None)
    broker.advance(10 * FIRST_WAIT_MS)
    assert not beat(broker, 2).topology_description_required


def test_old_members_and_leaving_ones_are_not_asked(broker: GroupBroker) -> None:
    """A member of version 0 could not read the request, and one that leaves would not answer it."""
    beat(broker, 0, version=0)
    assert not beat(broker, -1).topology_description_required
    assert beat(broker, 0).topology_description_required


def test_stored_description_is_described(broker: GroupBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node has the fields of its type. The epoch is in the log, the description in memory."""
    beat(broker, 0)
    assert describe(broker).topology_description_status == 1
    stores = [TopologyDescriptionGlobalStore(source=SOURCE, processor=WORKER)]
    assert update(broker, description(SOURCE, WORKER, SINK, stores=stores)) == (ErrorCode.NONE, None)
    group = describe(broker)
    assert (group.topology_description_status, group.assignor_name) == (3, "sticky")
    (part,) = group.topology_description.subtopologies
    found = [(n.name, n.node_type, n.source_topics, n.sink_topic, n.stores, n.successors) for n in part.nodes]
    assert found == [
        ("in", 1, ["t"], None, [], ["work"]),
        ("work", 2, [], None, ["s"], ["out"]),
        ("out", 3, [], "u", [], []),
    ]
    assert len(group.topology_description.global_stores) == 1
    not_asked = describe(broker, include=False)
    assert (not_asked.topology_description, not_asked.topology_description_status) == (None, 0)
    monkeypatch.setattr("broker.coordinators.runtime.LOAD_AT_START_MS", 60_000)  # however slow the machine is
    again = broker.restarted()
    assert describe(again).topology_description_status == 1
    assert not beat(again, 2).topology_description_required


@pytest.mark.parametrize(
    ("fields", "code", "message"),
    [
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST, "MemberId can't be empty."),
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST, "GroupId can't be empty."),
        ({"group_id": "none"}, ErrorCode.GROUP_ID_NOT_FOUND, "Group none not found."),
        ({"member_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID, "Member x is not a member of group g."),
        (
            {"epoch": 3},
            ErrorCode.INVALID_REQUEST,
            "Topology epoch 3 does not match the group's current topology epoch 0.",
        ),
    ],
)
def test_refused_updates(broker: GroupBroker, fields: dict[str, Any], code: ErrorCode, message: str) -> None:
    """In Apache Kafka's words."""
    beat(broker, 0)
    assert update(broker, description(SOURCE), **fields) == (code, message)
    assert describe(broker).topology_description_status == 1


@pytest.mark.parametrize(
    ("described", "message"),
    [
        (description(node("n", 0)), "Unknown topology node type: 0"),
        (description(node("n", 4)), "Unknown topology node type: 4"),
        (
            description(stores=[TopologyDescriptionGlobalStore(source=WORKER, processor=WORKER)]),
            "Global store must be composed of a source and a processor node.",
        ),
    ],
)
def test_impossible_descriptions(broker: GroupBroker, described: Struct, message: str) -> None:
    """Nothing is stored, so the broker asks again."""
    beat(broker, 0)
    assert update(broker, described) == (ErrorCode.INVALID_REQUEST, message)
    broker.advance(FIRST_WAIT_MS)
    assert beat(broker, 2).topology_description_required


def test_without_a_plugin_there_are_no_descriptions() -> None:
    """As in Apache Kafka, whatever the update has."""
    broker = make_broker()
    assert not beat(broker, 0).topology_description_required
    assert update(broker, description(node("n", 0)), group_id="") == (ErrorCode.UNSUPPORTED_VERSION, NO_PLUGIN)
    assert describe(broker).topology_description_status == 1
    assert describe(broker, group_id="none").topology_description_status == 0


def test_update_fails_with_its_write(broker: GroupBroker) -> None:
    """The description is kept only once its epoch is in the log."""
    beat(broker, 0)
    broker.partition_of("g").failure = ValueError("bug")
    assert update(broker, description(SOURCE))[0] is not ErrorCode.NONE
    broker.partition_of("g").failure = None
    assert describe(broker).topology_description_status == 1


# -- tags, lags and offsets of tasks -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "codes"), [(0, []), (1, [Status.MISSING_CLIENT_TAGS])])
def test_missing_tags_are_a_status(version: int, codes: list[Status]) -> None:
    """KAFKA-20744: members of version 0 do not know it. Tags that were sent once count later, too."""
    broker = make_broker(**{TAGS: ("zone", "rack")})
    answer = beat(broker, 0, version, client_tags=[KeyValue(key="rack", value="r")])
    assert [each.status_code for each in answer.status] == codes
    assert [each.status_detail for each in answer.status] == [
        "Missing required client tags for rack-aware standby assignment: [zone]. Configure them via"
        " 'client.tag.<tagKey>' in your Streams config."
        for _ in codes
    ]
    tags = [KeyValue(key="zone", value="z"), KeyValue(key="rack", value="r")]
    assert beat(broker, 2, version, client_tags=tags).status == []
    assert beat(broker, 3, version).status == []


def test_a_group_has_its_own_tags_and_lag() -> None:
    """Version 0 has a smaller field for the lag, which stays 0."""
    broker = make_broker()
    broker.controller.configs[ResourceType.GROUP, "g"] = {
        "streams.rack.aware.assignment.tags": "zone",
        "streams.acceptable.recovery.lag": "7",
        "streams.task.offset.interval.ms": "20000",
    }
    answer = beat(broker, 0)
    assert [each.status_code for each in answer.status] == [Status.MISSING_CLIENT_TAGS]
    assert (answer.acceptable_recovery_lag, answer.task_offset_interval_ms) == (7, 20_000)
    answer = beat(broker, 2, version=0)
    assert (answer.acceptable_recovery_lag_legacy, answer.task_offset_interval_ms) == (0, 20_000)


def test_refused_heartbeat_has_no_lag() -> None:
    """As in Apache Kafka."""
    assert beat(make_broker(), 5).acceptable_recovery_lag == -1


def test_offsets_of_tasks_are_described() -> None:
    """Each list is replaced by the next one. They are kept in memory, until the member leaves."""
    broker = make_broker()
    beat(broker, 0)
    offsets = [TaskOffset(subtopology_id="0", partition=index, offset=10 + index) for index in (1, 0)]
    assert beat(broker, 2, task_offsets=offsets, task_end_offsets=offsets[:1]).error_code == 0
    assert beat(broker, 2, task_end_offsets=offsets[1:]).error_code == 0
    (member,) = describe(broker).members
    assert [(each.partition, each.offset) for each in member.task_offsets] == [(0, 10), (1, 11)]
    assert [(each.partition, each.offset) for each in member.task_end_offsets] == [(0, 10)]
    beat(broker, -1)
    group = broker.groups.at("g")
    assert not isinstance(group, ErrorCode)
    streams = group.streams("g")
    assert streams is not None
    assert streams.soft.task_offsets == {}
