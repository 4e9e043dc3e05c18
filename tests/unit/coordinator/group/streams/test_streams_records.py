"""Records of streams groups: they round-trip, and replay to the group's state."""

from __future__ import annotations

import pytest

from coordinator.group.kinds import parse_record
from coordinator.group.streams import records as stored
from coordinator.group.streams.group import StreamsGroup, StreamsGroupState
from coordinator.group.streams.member import Endpoint, MemberState, StreamsMember
from coordinator.group.streams.records import GroupEpoch, StreamsRecord, TargetEpoch, current_record, member_record
from coordinator.group.streams.tasks import OWNS_NOTHING, OwnedTasks, Tasks
from coordinator.group.streams.topology import topology_of
from coordinator.shard import UnknownRecord
from protocol.messages.coordinator import streams_group as messages
from tests.support.streams_groups import WORD_COUNT, internal, subtopology, topology

MEMBER = StreamsMember(
    "m",
    epoch=5,
    previous_epoch=4,
    state=MemberState.UNREVOKED_TASKS,
    instance_id="i",
    rack_id="r",
    client_id="c",
    client_host="/h",
    rebalance_timeout_ms=7,
    topology_epoch=2,
    process_id="p",
    endpoint=Endpoint("h", 65_535),
    client_tags={"a": "1", "z": "2"},
    assigned=OwnedTasks({"0": {0: 3, 2: 5}}, {"1": frozenset({1})}, {"2": frozenset({7})}),
    revoking=OwnedTasks({"0": {1: 2}}, {"1": frozenset({0})}, {}),
)
TOPOLOGY = topology(
    subtopology(
        "0",
        ["a", "b"],
        sinks=["r"],
        repartition=[internal("q", 2, 1, cleanup_policy="delete")],
        changelogs=[internal("l")],
        copartition=[([0, 1], [0])],
        expressions=["x.*"],
    ),
    epoch=3,
)


@pytest.mark.parametrize(
    "record",
    [
        StreamsRecord("g", stored.GROUP, "", GroupEpoch(3, -7, 2, {"num.standby.replicas": "1"}, -2, 1)),
        StreamsRecord("g", stored.TARGET_EPOCH, "", TargetEpoch(3, 1_700_000_000_000)),
        StreamsRecord(
            "g", stored.TARGET, "m", Tasks({"0": frozenset({1, 0})}, {"1": frozenset({2})}, {"2": frozenset({3})})
        ),
        current_record("g", MEMBER),
        StreamsRecord("g", stored.TOPOLOGY, "", topology_of(TOPOLOGY)),
        StreamsRecord("g", stored.TOPOLOGY, "", topology_of(WORD_COUNT)),
        *(StreamsRecord("g", each, "", None) for each in (stored.GROUP, stored.TARGET_EPOCH, stored.TOPOLOGY)),
        *(StreamsRecord("g", each, "m", None) for each in (stored.MEMBER, stored.TARGET, stored.CURRENT)),
    ],
)
def test_records_are_read_as_written(record: StreamsRecord) -> None:
    assert parse_record(record.key, record.value) == record


def test_member_is_two_records() -> None:
    group = StreamsGroup("g")
    for record in (member_record("g", MEMBER), current_record("g", MEMBER)):
        parsed = parse_record(record.key, record.value)
        assert isinstance(parsed, StreamsRecord)
        group.replay(parsed)
    assert group.members == {"m": MEMBER}
    assert group.active_process("0", 1) == "p"
    assert (group.standby_processes("1", 0), group.warmup_processes("2", 7)) == ({"p"}, {"p"})


def test_records_before_4_3_have_no_epochs_of_tasks() -> None:
    old = messages.StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=5,
        previous_member_epoch=4,
        state=9,
        active_tasks=[messages.StreamsGroupCurrentMemberAssignmentTaskIds(subtopology_id="0", partitions=[1, 0])],
    )
    value = b"\0\0" + messages.StreamsGroupCurrentMemberAssignmentValue.encode(0, old)
    record = parse_record(current_record("g", MEMBER).key, value)
    assert isinstance(record, StreamsRecord)
    assert isinstance(record.content, stored.Current)
    assert record.content.assigned.active == {"0": {1: 5, 0: 5}}
    assert record.content.state is MemberState.UNKNOWN


def test_group_without_assignment_configs() -> None:
    """Written by 4.1, which had none."""
    old = messages.StreamsGroupMetadataValue(epoch=3, metadata_hash=1, last_assignment_configs=None)
    value = b"\0\0" + messages.StreamsGroupMetadataValue.encode(0, old)
    record = parse_record(StreamsRecord("g", stored.GROUP, "", None).key, value)
    assert isinstance(record, StreamsRecord)
    assert record.content == GroupEpoch(3, 1, -1, {})


def test_invalid_records_are_unknown() -> None:
    with pytest.raises(UnknownRecord):
        parse_record(b"\0\x12\0\x01g", b"\0\0")
    with pytest.raises(UnknownRecord):
        parse_record(b"\0\x13\0\x01g", b"\0\0")


def test_tombstones_remove_their_entries() -> None:
    group = StreamsGroup("g", [member_record("g", MEMBER), current_record("g", MEMBER)])
    group.soft.shutdown_by = "m"
    group.replay(StreamsRecord("g", stored.TARGET, "m", Tasks({"0": frozenset({1})})))
    group.replay(StreamsRecord("g", stored.TOPOLOGY, "", topology_of(TOPOLOGY)))
    group.replay(StreamsRecord("g", stored.CURRENT, "m", None))
    assert group.members["m"].assigned == OWNS_NOTHING
    assert group.active_process("0", 0) is None
    assert group.standby_processes("1", 1) == set()
    group.replay(StreamsRecord("g", stored.CURRENT, "x", None))
    group.replay(StreamsRecord("g", stored.TARGET, "m", None))
    group.replay(StreamsRecord("g", stored.TARGET, "m", None))
    group.replay(StreamsRecord("g", stored.MEMBER, "x", None))
    group.replay(StreamsRecord("g", stored.MEMBER, "m", None))
    group.replay(StreamsRecord("g", stored.TARGET_EPOCH, "", None))
    group.replay(StreamsRecord("g", stored.TOPOLOGY, "", None))
    assert (group.members, group.targets, group.topology, group.target_epoch) == ({}, {}, None, -1)
    assert (group.state, group.soft.shutdown_by) == (StreamsGroupState.EMPTY, None)


def test_moved_task_is_not_released_by_a_later_record() -> None:
    """Two members of different processes, with records in an order that no broker writes."""
    other = StreamsMember("n", process_id="q", assigned=OwnedTasks({"0": {0: 6}}))
    group = StreamsGroup("g")
    for member in (MEMBER, other):
        group.replay(member_record("g", member))
        group.replay(current_record("g", member))
    group.replay(StreamsRecord("g", stored.CURRENT, "m", None))
    assert group.active_process("0", 0) == "q"
