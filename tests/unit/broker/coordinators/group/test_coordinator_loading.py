"""The runtime of the group coordinator: loading partitions at a start or when they arrive."""

import pytest

from coordinator.group.deadlines import on_loaded
from coordinator.group.shard import GroupShard
from protocol.error_codes import ErrorCode
from protocol.messages.heartbeat import HEARTBEAT
from protocol.messages.leave_group import LEAVE_GROUP
from protocol.messages.list_groups import LIST_GROUPS
from tests.support.group_broker import code_of, commit, failing_for, fetched, heartbeat, stable_member

pytestmark = pytest.mark.usefixtures("patient_start")


def test_requests_during_loading_are_retried(broker, monkeypatch):
    """Heartbeats succeed meanwhile, as in Kafka."""
    member_id = stable_member(broker)
    for offset in range(300):  # more than is loaded without a pause
        commit(broker, offset, "other")
    monkeypatch.setattr("broker.coordinators.runtime.LOAD_AT_START_MS", 0)
    monkeypatch.setattr("broker.coordinators.runtime.CoordinatorRuntime._load.__defaults__", (0,))
    again = broker.restarted()
    assert again.groups.at("g") is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    context = again.context(HEARTBEAT, 4)
    request = HEARTBEAT.request(group_id="g", member_id=member_id, generation_id=1)
    assert again.handler(HEARTBEAT)(context, request).error_code == ErrorCode.NONE
    assert code_of(again.handler(LIST_GROUPS)(context, LIST_GROUPS.request())) is (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    )
    reply = again.handler(LEAVE_GROUP)(again.context(LEAVE_GROUP, 3), LEAVE_GROUP.request(group_id="g"))
    assert code_of(reply) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    again.loop.turn()
    assert again.groups.at("other") is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    again.loop.settle()
    assert fetched(again, "other") == 299
    assert heartbeat(again, member_id) is ErrorCode.NONE


def test_loaded_partitions_with_groups_are_logged(broker, caplog):
    """Most partitions have none at most starts, and are not logged."""
    caplog.set_level("INFO", "broker.coordinators.shard_log")
    commit(broker, 1)
    caplog.clear()
    broker.restarted()
    (line,) = (each for each in caplog.messages if each.startswith("Loaded "))
    assert line.startswith("Loaded 1 group from ")


def test_log_is_read_in_pieces(broker):
    for offset in range(200):
        commit(broker, offset)
    again = broker.restarted({"offsets.load.buffer.size": 1_000})
    assert fetched(again) == 199
    assert again.partition_of("g").reads > 10


def test_unloadable_partition_answers_not_coordinator(broker):
    stable_member(broker)
    broker.partition_of("g").go_offline()
    again = broker.restarted()
    assert again.groups.at("g") is ErrorCode.NOT_COORDINATOR
    other = next(name for name in "abcdefgh" if again.partition_of(name) is not again.partition_of("g"))
    assert isinstance(again.groups.at(other), GroupShard)


def test_failed_begin_of_a_load_does_not_affect_others(broker, monkeypatch):
    """The other partitions are loaded, and so is this one later."""
    members = {group_id: stable_member(broker, group_id) for group_id in "abcdefgh"}
    bad = broker.partition_of("a").index
    monkeypatch.setattr("broker.coordinators.group.coordinator.on_loaded", failing_for(bad, on_loaded))

    again = broker.restarted()

    assert {again.partition_of(group_id).index for group_id in members} == {0, 1, 2, 3}
    for group_id, member_id in members.items():
        assert heartbeat(again, member_id, group_id) is ErrorCode.NONE


def test_log_may_start_later(broker):
    """After DeleteRecords or retention."""
    for offset in range(3):
        commit(broker, offset)
    partition = broker.partition_of("g")
    partition.log_start_offset = 2
    assert fetched(broker.restarted()) == 2


def test_end_of_the_log_may_be_compacted(broker):
    commit(broker, 5)
    partition = broker.partition_of("g")
    partition.log_end_offset += 3
    again = broker.restarted()
    assert fetched(again) == 5


def test_unknown_record_types_are_logged_once(broker, caplog):
    from protocol.records.builder import BatchBuilder
    from storage.append.header_validation import AppendOrigin

    builder = BatchBuilder()
    builder.append(1, b"\0\x63\0\x01g", b"")
    partition = broker.partition_of("g")
    partition.append(builder.build(), 0, AppendOrigin.COORDINATOR)
    broker.restarted()
    assert "record type 99" in caplog.text
