"""The runtime of the group coordinator: its topic, writes, wake-ups, timers, and lost partitions."""

import pytest

from broker.network.java_address import java_address
from coordinator.group.classic.state import GroupState
from coordinator.group.deadlines import on_deadline
from coordinator.group.records import GroupRecord
from metadata.image import ResourceType
from protocol.error_codes import ErrorCode
from protocol.messages.leave_group import LEAVE_GROUP
from protocol.messages.list_groups import LIST_GROUPS
from protocol.messages.offset_commit import OFFSET_COMMIT, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from runtime.kafka_loggers import meaning
from tests.support.group_broker import (
    GroupBroker,
    code_of,
    commit,
    failing_for,
    fetched,
    heartbeat,
    join,
    stable_member,
)

pytestmark = pytest.mark.usefixtures("patient_start")


def test_without_the_topic_no_coordinator_is_available(broker):
    broker = GroupBroker(partitions=0)
    assert heartbeat(broker, "m") is ErrorCode.NOT_COORDINATOR
    assert broker.groups.at("g") is ErrorCode.NOT_COORDINATOR
    assert broker.call(LIST_GROUPS, 5).groups == []


def test_first_join_and_first_commit_create_the_topic():
    broker = GroupBroker(partitions=0)
    joined = join(broker)
    assert not joined.done
    broker.advance(0)
    assert joined.result().generation_id == 1
    broker = GroupBroker(partitions=0)
    broker.controller.add("t")
    assert commit(broker, 5) is ErrorCode.NONE
    assert fetched(broker) == 5


def test_failed_topic_creation_leaves_no_coordinator():
    broker = GroupBroker(partitions=0)
    broker.controller.refuses = True
    broker.controller.add("t")
    assert commit(broker, 5) is ErrorCode.NOT_COORDINATOR
    joined = join(broker)
    broker.advance(0)
    assert code_of(joined.result()) is ErrorCode.NOT_COORDINATOR


def test_client_that_disconnects_during_creation_is_dropped():
    broker = GroupBroker(partitions=0)
    joined = join(broker)
    joined.cancel()
    broker.advance(0)
    assert broker.hosted


def test_client_that_disconnects_while_joining_stays_a_member(broker):
    """Its session timeout decides."""
    joined = join(broker)
    joined.cancel()
    broker.advance(0)
    group = broker.groups.at("g").classic("g")
    assert (group.state, len(group.members)) == (GroupState.COMPLETING_REBALANCE, 1)


def test_sessions_expire_by_the_timer(broker):
    member_id = stable_member(broker)
    broker.advance(9_000)
    assert heartbeat(broker, member_id) is ErrorCode.NONE
    broker.advance(9_999)
    assert heartbeat(broker, member_id) is ErrorCode.NONE
    broker.advance(10_000)
    assert heartbeat(broker, member_id) is ErrorCode.UNKNOWN_MEMBER_ID


def test_failing_timer_does_not_affect_other_groups(broker, monkeypatch, caplog):
    """The join phases of all other groups end in the same turn, and timers continue."""
    monkeypatch.setattr("broker.coordinators.group.coordinator.on_deadline", failing_for("bad", on_deadline))
    joins = {group_id: join(broker, group_id) for group_id in ("bad", "first", "last")}

    broker.advance(0)

    assert {group_id for group_id, joined in joins.items() if joined.done} == {"first", "last"}
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["of bad"]
    later = join(broker, "later")
    broker.advance(0)
    assert later.done


def test_groups_and_offsets_survive_a_restart(broker):
    member_id = stable_member(broker)
    broker.call(
        OFFSET_COMMIT,
        9,
        group_id="g",
        member_id=member_id,
        generation_id_or_member_epoch=1,
        topics=[
            OffsetCommitRequestTopic(
                name="t", partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=42)]
            )
        ],
    )
    again = broker.restarted()
    assert fetched(again) == 42
    assert heartbeat(again, member_id) is ErrorCode.NONE
    again.advance(10_000)
    assert heartbeat(again, member_id) is ErrorCode.UNKNOWN_MEMBER_ID


def test_decisions_are_logged_at_the_groups_level(broker, caplog):
    """Under Kafka's logger name and ours."""
    caplog.set_level("INFO", meaning("org.apache.kafka.coordinator.group.GroupMetadataManager"))
    stable_member(broker)
    loggers = [each.name for each in caplog.records if "has generation 1" in each.getMessage()]
    assert loggers == ["broker.coordinators.group.coordinator"]
    caplog.clear()
    caplog.set_level("WARNING", "broker.coordinators.group")
    join(broker, "another")
    assert "preparing to rebalance" not in caplog.text


def test_client_strings_cannot_forge_log_lines(broker, caplog):
    caplog.set_level("INFO")
    join(broker, version=8, group_instance_id="a", reason="bored\nERROR all is lost")
    assert "bored\\nERROR" in caplog.text
    assert "bored\nERROR" not in caplog.text


# -- writing ----------------------------------------------------------------------------------------------------------


def test_disk_failure_answers_not_coordinator(broker, monkeypatch, caplog):
    """The log does not report a decision that was not written."""
    from broker.requests.error_code_map import ERROR_CODES
    from storage.errors import LogOffline

    monkeypatch.setitem(ERROR_CODES, LogOffline, ErrorCode.KAFKA_STORAGE_ERROR)
    member_id = stable_member(broker)
    broker.partition_of("g").go_offline()
    caplog.set_level("INFO")
    answer = broker.call(LEAVE_GROUP, 2, group_id="g", member_id=member_id)
    assert code_of(answer) is ErrorCode.NOT_COORDINATOR
    assert "rebalance" not in caplog.text


@pytest.mark.parametrize("fails", [False, True])
def test_flush_messages_holds_back_the_answer_to_a_commit(broker, fails):
    """A client with a response may rely on the commit after a power loss, as for records."""
    from storage.errors import LogOffline

    broker.partition_of("g").must_wait = True
    topic = OffsetCommitRequestTopic(
        name="t", partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=5)]
    )
    fields = {"group_id": "g", "generation_id_or_member_epoch": -1, "topics": [topic]}
    answer = broker.send(OFFSET_COMMIT, 8, **fields)
    assert not answer.done
    [flush] = broker.flushes
    if fails:
        flush.fail(LogOffline("/data", "disk on fire"))
    else:
        flush.resolve(None)
    expected = ErrorCode.NOT_COORDINATOR if fails else ErrorCode.NONE
    assert answer.result().topics[0].partitions[0].error_code == expected
    broker.partition_of("g").must_wait = False
    assert broker.send(OFFSET_COMMIT, 8, **fields).done


@pytest.mark.parametrize("loaded", [True, False])
def test_groups_of_a_lost_partition_have_no_coordinator(broker, loaded, monkeypatch):
    """Waiting members get an error. Groups of other partitions continue."""
    other = next(name for name in "abcdef" if broker.partition_of(name) is not broker.partition_of("g"))
    assert commit(broker, 5, "g") is commit(broker, 5, other) is ErrorCode.NONE
    if loaded:
        member_id = stable_member(broker)
        waiting = join(broker)
    else:
        monkeypatch.setattr("broker.coordinators.runtime.LOAD_AT_START_MS", 0)
        broker = broker.restarted()
    partition = broker.partition_of("g")
    partition.online = False
    partition.go_offline()
    broker.groups.partition_lost(partition)
    broker.advance(0)
    if loaded:
        assert code_of(waiting.result()) is ErrorCode.NOT_COORDINATOR
        assert heartbeat(broker, member_id) is ErrorCode.NOT_COORDINATOR
    assert commit(broker, 6, "g") is ErrorCode.NOT_COORDINATOR
    assert commit(broker, 6, other) is ErrorCode.NONE
    broker.groups.partition_lost(partition)
    partition.topic = "another"
    broker.groups.partition_lost(partition)


def test_unexpected_failure_of_a_write_is_a_server_error(broker, caplog):
    broker.partition_of("g").failure = ValueError("bug")
    assert commit(broker, 5) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "bug" in caplog.text


def test_too_few_replicas_make_coordinator_unavailable(broker):
    broker.partition_of("g").few_replicas = True
    assert commit(broker, 5) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_tombstones_are_split_into_batches(broker):
    from protocol.messages.delete_groups import DELETE_GROUPS

    broker.controller.add("t", partitions=100)
    for partition in range(100):
        commit(broker, 1, partition=partition)
    stored = broker.partition_of("g")
    stored.config.max_message_bytes = 1_024 + 500
    before = len(stored.batches)
    stored.failure = ValueError("bug")
    answer = broker.call(DELETE_GROUPS, 2, groups_names=["g"])
    assert answer.results[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert fetched(broker) == 1
    stored.failure = None
    answer = broker.call(DELETE_GROUPS, 2, groups_names=["g"])
    assert answer.results[0].error_code == 0
    assert len(stored.batches) > before + 1
    assert fetched(broker.restarted()) == -1


# -- deleted topics, expired offsets, settings ------------------------------------------------------------------------


def test_offsets_of_a_deleted_topic_are_deleted(broker):
    commit(broker, 5)
    broker.controller.delete("t")
    broker.controller.add("t", bytes(15) + b"\2")
    assert fetched(broker) == -1
    assert fetched(broker.restarted()) == -1


def test_deleting_the_offsets_topic_deletes_all_groups(broker):
    member_id = stable_member(broker)
    waiting = join(broker, "h")
    broker.hosted.clear()
    broker.controller.delete("__consumer_offsets")
    assert code_of(waiting.result()) is ErrorCode.NOT_COORDINATOR
    assert heartbeat(broker, member_id) is ErrorCode.NOT_COORDINATOR
    joined = join(broker)
    broker.advance(0)
    assert joined.result().generation_id == 1


def test_stop_answers_waiting_members():
    broker = GroupBroker({"group.initial.rebalance.delay.ms": 3_000})
    joined = join(broker)
    broker.groups.stop()
    assert code_of(joined.result()) is ErrorCode.NOT_COORDINATOR
    assert heartbeat(broker, "m") is ErrorCode.NOT_COORDINATOR
    assert code_of(join(broker).result()) is ErrorCode.NOT_COORDINATOR
    broker.advance(1_000_000)


def test_records_are_compressed_as_configured():
    """offsets.topic.compression.codec"""
    from protocol.records.batch import parse_header

    broker = GroupBroker({"offsets.topic.compression.codec": 3})
    broker.controller.add("t")
    commit(broker, 5)
    assert parse_header(broker.partition_of("g").batches[-1]).codec == 3
    assert fetched(broker.restarted()) == 5


def test_expired_offsets_are_deleted_at_each_check():
    broker = GroupBroker({"offsets.retention.minutes": 1, "offsets.retention.check.interval.ms": 50_000})
    broker.controller.add("t")
    commit(broker, 5)
    broker.advance(50_000)
    assert fetched(broker) == 5
    broker.advance(50_000)
    assert fetched(broker) == -1
    assert broker.call(LIST_GROUPS, 5).groups == []


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", "/127.0.0.1"),
        ("::1", "/0:0:0:0:0:0:0:1"),
        ("2001:db8::a00", "/2001:db8:0:0:0:0:0:a00"),
        ("::ffff:10.1.2.3", "/10.1.2.3"),
        ("fe80::1%eth0", "/fe80:0:0:0:0:0:0:1%eth0"),
    ],
)
def test_client_addresses_are_written_as_by_java(host, expected):
    assert java_address(host) == expected


def test_settings_beyond_the_limits_are_logged_at_start(caplog):
    """The limits are used instead: see config/resources.py."""
    broker = GroupBroker({"group.streams.max.standby.replicas": 1}, start=False)
    broker.controller.configs[ResourceType.GROUP, "g"] = {"streams.num.standby.replicas": "2"}
    broker.controller.configs[ResourceType.TOPIC, "t"] = {"retention.ms": "2"}
    broker.groups.start()
    assert [record.getMessage() for record in caplog.records] == [
        "group g: streams.num.standby.replicas of 2 is outside of the broker's limits: using 1"
    ]


def test_unloaded_shard_is_not_written(broker):
    """Another shard may be loaded for the partition by then."""
    assert commit(broker, 1) is ErrorCode.NONE
    found = broker.groups.log_of("g")
    end_offset = found.partition.log_end_offset
    broker.groups.partition_lost(found.partition)
    assert broker.groups.run_records(found, [GroupRecord("g", None)]) is ErrorCode.NONE
    assert found.partition.log_end_offset == end_offset
