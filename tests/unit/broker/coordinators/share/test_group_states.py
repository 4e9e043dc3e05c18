"""Share groups in one broker, end to end: records across restarts, sessions, locks, offsets, deletion."""

import pytest

from broker.coordinators.share.fetching import _batches_of
from metadata.delete_topics import TopicReference
from metadata.topic_names import SHARE_GROUP_STATE
from protocol.error_codes import ErrorCode
from protocol.messages import share_fetch
from protocol.messages.alter_share_group_offsets import (
    ALTER_SHARE_GROUP_OFFSETS,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from protocol.messages.delete_groups import DELETE_GROUPS
from protocol.messages.delete_share_group_offsets import (
    DELETE_SHARE_GROUP_OFFSETS,
    DeleteShareGroupOffsetsRequestTopic,
)
from protocol.messages.describe_share_group_offsets import (
    DESCRIBE_SHARE_GROUP_OFFSETS,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from protocol.messages.share_fetch import SHARE_FETCH
from protocol.messages.share_group_describe import SHARE_GROUP_DESCRIBE
from storage.errors import LogOffline
from storage.fetch_slice import FetchSlice
from storage.log.partition_log import PartitionLog
from tests.support import share_requests
from tests.support.data_client import batch
from tests.support.share_broker import SETTINGS, ShareBroker, ShareMemberClient
from tests.support.share_requests import fetch_of

FEW = {
    **SETTINGS,
    "share.coordinator.snapshot.update.records.per.snapshot": "2",
    "group.share.max.share.sessions": "200",
}


pytestmark = pytest.mark.broker(ShareBroker, FEW)


def offsets(broker: ShareBroker, group: str = "g") -> list[tuple[int, int, int]]:
    """Return (partition, start offset, lag) for all partitions of the group."""
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
    [found] = broker.call(DESCRIBE_SHARE_GROUP_OFFSETS, 1, groups=[asked]).groups
    assert not found.error_code
    return [(each.partition_index, each.start_offset, each.lag) for t in found.topics for each in t.partitions]


def alter(broker: ShareBroker, offset: int, group: str = "g") -> ErrorCode:
    partition = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=offset)
    topic = AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=[partition])
    answer = broker.call(ALTER_SHARE_GROUP_OFFSETS, 0, group_id=group, topics=[topic])
    broker.settle()
    return ErrorCode(answer.error_code)


# -- records -----------------------------------------------------------------------------------------------------------


def test_records_are_delivered_once_and_acknowledged(broker: ShareBroker, member: ShareMemberClient):
    broker.fill(10)
    assert member.acquire(wait_ms=0) == [(0, 9, 1)]
    assert member.acquire(wait_ms=0) == []
    assert member.acknowledge((0, 4, [1]), (5, 5, [2])) == "NONE ['0 NONE None']"
    assert member.acquire(wait_ms=0) == [(5, 5, 2)]
    assert offsets(broker) == [(0, 0, 5)]  # the last state written to the share coordinator


def test_new_partitions_are_delivered_one_by_one(broker: ShareBroker):
    """Kafka reads their states separately, and answers with the first that has records, later with all."""
    topic_id = broker.create("pair", 2)[0].topic_id
    client = broker.member()
    client.configure(share_auto_offset_reset="earliest")
    for epoch in range(3):
        client.beat(epoch, ["pair"])
        broker.advance(1_000)
        broker.settle()

    def fetched() -> list[tuple[int, int]]:
        """Return (partition, records) of one fetch, after both partitions have got two records."""
        for partition in range(2):
            client.produce("pair", batch(b"a", b"b", timestamp=broker.clock.now_ms()), partition)
        partitions = [share_fetch.FetchPartition(partition_index=index) for index in range(2)]
        answer = client.call(
            share_fetch.SHARE_FETCH,
            2,
            group_id=client.group,
            member_id=client.member,
            share_session_epoch=client.epoch,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=500,
            batch_size=500,
            topics=[share_fetch.FetchTopic(topic_id=topic_id, partitions=partitions)],
        )
        client.epoch += 1
        return [
            (each.partition_index, sum(a.last_offset - a.first_offset + 1 for a in each.acquired_records))
            for topic in answer.responses
            for each in topic.partitions
        ]

    assert fetched() == [(0, 2), (1, 0)]
    assert sorted(fetched()) == [(0, 2), (1, 4)]
    assert sorted(fetched()) == [(0, 2), (1, 2)]


def test_restart_continues_from_the_state(broker: ShareBroker, member: ShareMemberClient):
    """Acknowledged records stay so; acquired ones are available again."""
    broker.fill(10)
    member.acquire(wait_ms=0)
    member.acknowledge((0, 4, [1]), (7, 7, [3]), (9, 9, [2]))
    broker.restart()
    broker.settle()
    again = broker.member("again")
    assert again.acquire(wait_ms=0) == [(5, 6, 1), (8, 8, 1), (9, 9, 2)]
    assert broker.share_partitions.sessions.__len__() == 1


def test_member_that_disconnects_releases_its_records(broker: ShareBroker, member: ShareMemberClient):
    broker.fill(3)
    member.acquire(wait_ms=0)
    other = broker.member("other")
    assert other.acquire(wait_ms=0) == []
    member.connection.close()
    broker.settle()
    assert other.acquire(wait_ms=0) == [(0, 2, 2)]
    assert len(broker.share_partitions.sessions) == 1


def test_locks_expire(broker: ShareBroker, member: ShareMemberClient):
    """After share.record.lock.duration.ms. They can be renewed unless share.renew.acknowledge.enable is false."""
    broker.fill(3)
    member.acquire(wait_ms=0)
    broker.advance(29_000)
    assert member.acknowledge((2, 2, [4]), renew=True) == "NONE ['0 NONE None']"
    broker.advance(1_000)
    broker.settle()
    assert member.acquire(wait_ms=0) == [(0, 1, 2)]
    member.configure(share_renew_acknowledge_enable="false")
    assert member.acknowledge((2, 2, [4]), renew=True) == "NONE ['0 INVALID_RECORD_STATE -']"


def test_expiring_locks_keep_a_newer_leader_epoch(broker: ShareBroker, member: ShareMemberClient):
    broker.fill(3)
    member.acquire(wait_ms=0)
    broker.advance(10_000)
    broker.partition("t").leader_epoch += 1
    other = broker.member("other")
    assert other.acquire(wait_ms=0) == [(0, 2, 1)]
    broker.advance(21_000)
    broker.settle()
    assert other.acknowledge((0, 2, [1])) == "NONE ['0 NONE None']"


def test_locks_expire_when_transactions_are_unknown(
    broker: ShareBroker, member: ShareMemberClient, monkeypatch: pytest.MonkeyPatch
):
    """The member gets an error, and the records are delivered again."""
    member.configure(share_isolation_level="read_committed")
    broker.fill(3)

    def fail(*_: int) -> None:
        raise LogOffline("t-0", "the disk is gone")

    with monkeypatch.context() as context:
        context.setattr(PartitionLog, "aborted_transactions", fail)
        assert "KAFKA_STORAGE_ERROR" in member.share_fetch(wait_ms=0)
    assert member.acquire(wait_ms=0) == []
    broker.advance(31_000)
    broker.settle()
    assert member.acquire(wait_ms=0) == [(0, 2, 2)]


def test_fetch_reads_no_more_than_it_delivers(broker: ShareBroker, member: ShareMemberClient):
    """Batches larger than one read of the log, and many smaller ones."""
    client = broker.member()
    for size in (200_000, 1, 70_000):
        client.produce("t", batch(b"v" * size, timestamp=broker.clock.now_ms()))
    broker.fill(*[1] * 2000)
    assert member.acquire(wait_ms=0, most=4) == [(0, 3, 1)]
    [part] = [broker.partition("t").log.read(4, 1 << 26, 2003)]
    assert isinstance(part, FetchSlice)
    assert [each.last for each in _batches_of(part, 2003, 700)] == list(range(4, 700))
    assert [each.last for each in _batches_of(part, 2003, 9_999)] == list(range(4, 2003))
    assert [each.last for each in _batches_of(part, 2001, 9_999)] == list(range(4, 2001))


def test_sessions_are_limited(broker: ShareBroker, member: ShareMemberClient):
    """group.share.max.share.sessions. A member's own session is replaced."""
    broker.share_partitions.sessions._slots = 1
    assert member.acquire(wait_ms=0) == []
    other = broker.member("other")
    waiting = broker.send(SHARE_FETCH, 2, **fetch_of(other, 0, {}, max_wait_ms=500))
    broker.advance(499)
    assert waiting is not None
    assert not waiting.done
    broker.advance(1)
    assert waiting.result().error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert member.share_fetch(epoch=0, wait_ms=0).startswith("NONE")
    assert member.share_fetch(epoch=-1).startswith("NONE")
    assert member.share_fetch(epoch=3).startswith("SHARE_SESSION_NOT_FOUND")


@pytest.mark.parametrize(("reset", "expected"), [("latest", 6), ("earliest", 0), ("by_duration:PT1M", 3)])
def test_start_offset_is_configured(broker: ShareBroker, reset: str, expected: int):
    """share.auto.offset.reset."""
    broker.fill(3)
    broker.advance(120_000)
    broker.fill(3)
    client = broker.member()
    client.configure(share_auto_offset_reset=reset)
    client.enter()
    client.acquire(wait_ms=0)
    broker.fill(1)
    if expected == 6:
        assert client.acquire(wait_ms=0) == [(6, 6, 1)]
    else:
        assert client.acknowledge((expected, 5, [1])) == "NONE ['0 NONE None']"
        assert offsets(broker) == [(0, expected, 1)]


def test_group_starts_behind_deleted_records(broker: ShareBroker, member: ShareMemberClient):
    """DeleteRecords: the group begins behind them."""
    broker.fill(10, 10)
    member.acquire(wait_ms=0, most=10)
    broker.partition("t").delete_records(15)
    assert member.acquire(wait_ms=0) == [(15, 19, 1)]
    assert member.acknowledge((0, 9, [1])) == "NONE ['0 NONE None']"


def test_group_without_state_gets_an_error(broker: ShareBroker):
    """No member has joined. As in Kafka; acknowledgements get it too."""
    stranger = broker.member()
    stranger.group = "nobody"
    assert "UNKNOWN_SERVER_ERROR" in stranger.share_fetch(wait_ms=0)
    assert "UNKNOWN_TOPIC_OR_PARTITION" in stranger.acknowledge((0, 0, [1]))
    assert "UNKNOWN_TOPIC_OR_PARTITION" in stranger.share_fetch(partition=7, wait_ms=0)
    stranger.topic_id = b"\7" * 16
    assert "UNKNOWN_TOPIC_ID" in stranger.share_fetch(partition=0, wait_ms=0)
    assert "UNKNOWN_TOPIC_ID" in stranger.acknowledge((0, 0, [1]))


def test_state_log_is_truncated_behind_snapshots(broker: ShareBroker, member: ShareMemberClient):
    """The remaining log has the same states."""
    broker.fill(6)
    member.acquire(wait_ms=0)
    for offset in range(6):
        member.acknowledge((offset, offset, [1]))
    log = broker.partition(SHARE_GROUP_STATE)
    assert log.log_start_offset == 0
    before = dict(broker.share_states.loaded_logs()[0].shard.states)
    broker.advance(300_000)
    broker.settle()
    broker.advance(300_000)
    broker.settle()
    assert log.log_start_offset > 3
    broker.restart()
    after = broker.share_states.loaded_logs()[0].shard.states
    assert [(state.start_offset, state.batches) for state in after.values()] == [
        (state.start_offset, state.batches) for state in before.values()
    ]


# -- administrators ----------------------------------------------------------------------------------------------------


def test_offsets_of_an_empty_group_are_altered(broker: ShareBroker, member: ShareMemberClient):
    broker.fill(10)
    assert alter(broker, 3) is ErrorCode.NON_EMPTY_GROUP
    member.acquire(wait_ms=0)
    member.beat(-1)
    assert alter(broker, 3) is ErrorCode.NONE
    assert offsets(broker) == [(0, 3, 7)]
    other = broker.member("other")
    other.enter()
    assert other.acquire(wait_ms=0) == [(3, 9, 1)]
    assert alter(broker, 1, group="") is ErrorCode.INVALID_GROUP_ID
    assert alter(broker, 1, group="new") is ErrorCode.NONE
    assert offsets(broker, "new") == [(0, 1, 9)]


def test_offsets_and_groups_are_deleted_with_their_states(broker: ShareBroker, member: ShareMemberClient):
    topics = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in ("t", "missing")]
    assert broker.call(DELETE_SHARE_GROUP_OFFSETS, 0, group_id="g", topics=topics).error_code == 68
    member.beat(-1)
    answer = broker.call(DELETE_SHARE_GROUP_OFFSETS, 0, group_id="g", topics=topics)
    assert [(each.topic_name, each.error_code) for each in answer.responses] == [("t", 0), ("missing", 3)]
    [again] = broker.call(DELETE_SHARE_GROUP_OFFSETS, 0, group_id="g", topics=topics[:1]).responses
    assert again.error_message == "There is no offset information to delete."
    assert alter(broker, 1) is ErrorCode.NONE
    assert len(broker.share_states.loaded_logs()[0].shard) == 1
    [deleted] = broker.call(DELETE_GROUPS, 2, groups_names=["g"]).results
    assert deleted.error_code == ErrorCode.NONE
    assert len(broker.share_states.loaded_logs()[0].shard) == 0
    asked = DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=[0, 9])
    [found] = broker.call(
        DESCRIBE_SHARE_GROUP_OFFSETS,
        1,
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=[asked])],
    ).groups
    assert [each.start_offset for each in found.topics[0].partitions] == [-1, -1]


def test_offsets_of_repeated_topics_are_merged(broker: ShareBroker, member: ShareMemberClient):
    """A topic without partitions in the request is answered if it exists."""
    broker.create("u", 3)
    member.beat(-1)
    assert share_requests.alter(member, ("u", {0: 0}), ("u", {1: 0})) == "NONE [('u', [(0, 'NONE'), (1, 'NONE')])]"
    assert share_requests.alter(member, ("u", {}), ("unknown", {})) == "NONE [('u', [])]"
    offsets_text = "NONE [('u', [(0, 0), (1, 0), (2, -1)]), ('unknown', [(0, -1)])]"
    assert share_requests.describe(member, ("u", [1, 1]), ("unknown", [0]), ("u", [0, 2, 1])) == offsets_text


def test_deleted_topic_deletes_its_states(broker: ShareBroker, member: ShareMemberClient):
    broker.fill(1)
    member.acquire(wait_ms=0)
    broker.controller.delete_topics([TopicReference("t")])
    broker.settle()
    assert len(broker.share_states.loaded_logs()[0].shard) == 0
    assert offsets(broker) == []
    assert "UNKNOWN_TOPIC_ID" in member.share_fetch(wait_ms=0)
    assert not broker.share_partitions._live, "the state is still in memory"


def test_description_of_groups(broker: ShareBroker, member: ShareMemberClient):
    found = broker.call(SHARE_GROUP_DESCRIBE, 1, group_ids=["g", "", "x"], include_authorized_operations=True).groups
    assert [(each.group_id, each.error_code, each.group_state) for each in found] == [
        ("", ErrorCode.INVALID_GROUP_ID, ""),
        ("g", ErrorCode.NONE, "Stable"),
        ("x", ErrorCode.GROUP_ID_NOT_FOUND, ""),
    ]


def test_feature_disables_share_groups(broker: ShareBroker, member: ShareMemberClient):
    """share.version 0, unless the broker's configuration enables them."""
    broker.controller.image.features["share.version"] = 0
    assert member.beat(0, ["t"]).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert member.share_fetch(wait_ms=0).startswith("UNSUPPORTED_VERSION")
    assert member.acknowledge((0, 0, [1])).startswith("UNSUPPORTED_VERSION")
    assert alter(broker, 1) is ErrorCode.UNSUPPORTED_VERSION
    [found] = broker.call(SHARE_GROUP_DESCRIBE, 1, group_ids=["g"]).groups
    assert found.error_code == ErrorCode.UNSUPPORTED_VERSION
