"""Handlers of the group coordinator: the shape of each version, and the checks before the group is called."""

import pytest

from broker.handlers.delete_groups import answer_of
from protocol.error_codes import ErrorCode
from protocol.messages.delete_groups import DELETE_GROUPS
from protocol.messages.describe_groups import DESCRIBE_GROUPS
from protocol.messages.find_coordinator import FIND_COORDINATOR
from protocol.messages.heartbeat import HEARTBEAT
from protocol.messages.join_group import JOIN_GROUP, JoinGroupRequestProtocol
from protocol.messages.leave_group import LEAVE_GROUP, MemberIdentity
from protocol.messages.list_groups import LIST_GROUPS
from protocol.messages.offset_commit import OFFSET_COMMIT, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_delete import OFFSET_DELETE, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from protocol.messages.offset_fetch import (
    OFFSET_FETCH,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from protocol.messages.sync_group import SYNC_GROUP
from tests.support.group_broker import GroupBroker, code_of

TOPIC_ID, OTHER_ID = bytes(15) + b"\1", bytes(15) + b"\2"
RANGE = [JoinGroupRequestProtocol(name="range", metadata=b"")]
SHARE_KEY = "g:WwYOpKZ6Qm6r1SIpRGOh9Q:1"


@pytest.fixture
def broker() -> GroupBroker:
    broker = GroupBroker()
    broker.controller.add("t", TOPIC_ID)
    return broker


def join(broker, version, group_id="g", **fields):
    fields = {"session_timeout_ms": 10_000, "protocol_type": "consumer", "protocols": RANGE, **fields}
    if version >= 1:
        fields.setdefault("rebalance_timeout_ms", 10_000)
    return broker.call(JOIN_GROUP, version, group_id=group_id, **fields)


def committed(*offsets, topic="t", topic_id=bytes(16)):
    return [
        OffsetCommitRequestTopic(
            name=topic,
            topic_id=topic_id,
            partitions=[
                OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata="m")
                for partition, offset in offsets
            ],
        )
    ]


def codes(response):
    return {
        (topic.name or topic.topic_id[-1], partition.partition_index): ErrorCode(partition.error_code)
        for topic in response.topics
        for partition in topic.partitions
    }


# -- JoinGroup, SyncGroup, Heartbeat, LeaveGroup ----------------------------------------------------------------------


@pytest.mark.parametrize("version", range(10))
def test_join_answers_in_every_version(broker, version):
    """If no protocol is chosen, its name is empty up to v6 and null from v7 on."""
    first = join(broker, version)
    if version >= 4:
        assert code_of(first) is ErrorCode.MEMBER_ID_REQUIRED
        assert first.protocol_name == ("" if version < 7 else None)
        assert first.leader == ""
        first = join(broker, version, member_id=first.member_id)
    assert (code_of(first), first.generation_id, first.protocol_name) == (ErrorCode.NONE, 1, "range")
    assert first.leader == first.member_id == first.members[0].member_id
    assert first.protocol_type == ("consumer" if version >= 7 else None)


def test_join_checks_group_id_and_session_before_anything_else():
    broker = GroupBroker(partitions=0)
    assert code_of(join(broker, 9, "")) is ErrorCode.INVALID_GROUP_ID
    assert code_of(join(broker, 9, session_timeout_ms=1)) is ErrorCode.INVALID_SESSION_TIMEOUT
    assert not broker.hosted


@pytest.mark.parametrize("version", range(6))
def test_sync_answers_in_every_version(broker, version):
    member = join(broker, 3).member_id
    fields = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
    answer = broker.call(SYNC_GROUP, version, group_id="g", generation_id=1, member_id=member, **fields)
    assert (code_of(answer), answer.assignment) == (ErrorCode.NONE, b"")
    assert answer.protocol_name == ("range" if version >= 5 else None)


def test_sync_v5_has_to_name_the_protocol(broker):
    assert code_of(broker.call(SYNC_GROUP, 5, group_id="g")) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    answer = broker.call(SYNC_GROUP, 5, group_id="g", protocol_type="consumer", protocol_name="x", member_id="m")
    assert code_of(answer) is ErrorCode.UNKNOWN_MEMBER_ID


def test_empty_group_ids_are_rejected_for_members(broker):
    assert code_of(broker.call(SYNC_GROUP, 4)) is ErrorCode.INVALID_GROUP_ID
    assert code_of(broker.call(HEARTBEAT, 4)) is ErrorCode.INVALID_GROUP_ID
    assert code_of(broker.call(LEAVE_GROUP, 5)) is ErrorCode.INVALID_GROUP_ID
    assert code_of(broker.call(OFFSET_DELETE, 0)) is ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", range(6))
def test_leave_answers_in_every_version(broker, version):
    member = join(broker, 3).member_id
    if version < 3:
        assert code_of(broker.call(LEAVE_GROUP, version, group_id="g", member_id=member)) is ErrorCode.NONE
        answer = broker.call(LEAVE_GROUP, version, group_id="g", member_id=member)
        assert code_of(answer) is ErrorCode.UNKNOWN_MEMBER_ID
    else:
        members = [MemberIdentity(member_id=member), MemberIdentity(member_id="nobody")]
        answer = broker.call(LEAVE_GROUP, version, group_id="g", members=members)
        assert code_of(answer) is ErrorCode.NONE
        assert [each.error_code for each in answer.members] == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]


def test_without_the_offsets_topic_it_is_not_coordinator():
    broker = GroupBroker(partitions=0)
    broker.controller.add("t", TOPIC_ID)
    expected = ErrorCode.NOT_COORDINATOR
    assert code_of(broker.call(SYNC_GROUP, 4, group_id="g")) is expected
    assert code_of(broker.call(LEAVE_GROUP, 5, group_id="g")) is expected
    assert code_of(broker.call(OFFSET_DELETE, 0, group_id="g")) is expected
    assert code_of(broker.call(DESCRIBE_GROUPS, 6, groups=["g"]).groups[0]) is expected
    assert code_of(broker.call(DELETE_GROUPS, 2, groups_names=["g"]).results[0]) is expected
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
    assert code_of(broker.call(OFFSET_FETCH, 2, group_id="g", topics=topics)) is expected
    answer = broker.call(OFFSET_FETCH, 1, group_id="g", topics=topics)
    assert codes(answer) == {("t", 0): expected}


# -- OffsetCommit -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(11))
def test_commit_and_fetch_in_every_version(broker, version):
    by_id = version >= 10
    topics = committed((0, 5), (1, 6), topic="" if by_id else "t", topic_id=TOPIC_ID if by_id else bytes(16))
    answer = broker.call(OFFSET_COMMIT, version, group_id="g", topics=topics)
    assert set(codes(answer).values()) == {ErrorCode.NONE}
    assert broker.groups.at("g").offsets.get("g", "t", 1).topic_id == TOPIC_ID
    assert (answer.topics[0].name, answer.topics[0].topic_id) == (("", TOPIC_ID) if by_id else ("t", bytes(16)))


def test_commit_v1_may_carry_its_timestamp(broker):
    topics = committed((0, 5), (1, 6))
    topics[0].partitions[0].commit_timestamp = 1234
    broker.call(OFFSET_COMMIT, 1, group_id="g", topics=topics)
    offsets = broker.groups.at("g").offsets
    times = [offsets.get("g", "t", index).commit_timestamp_ms for index in (0, 1)]
    assert times == [1234, broker.clock.now_ms()]


def test_commit_rejects_unknown_partitions_one_by_one(broker):
    topics = committed((0, 5), (7, 5)) + committed((0, 5), topic="u")
    answer = broker.call(OFFSET_COMMIT, 9, group_id="g", topics=topics)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(answer) == {("t", 7): unknown, ("t", 0): ErrorCode.NONE, ("u", 0): unknown}
    assert [topic.name for topic in answer.topics] == ["t", "u"]


def test_commit_by_an_unknown_member_is_rejected(broker):
    topics = committed((0, 5), topic="", topic_id=OTHER_ID) + committed((0, 5), topic="")
    answer = broker.call(OFFSET_COMMIT, 10, group_id="g", topics=topics)
    assert codes(answer) == {(2, 0): ErrorCode.UNKNOWN_TOPIC_ID, (0, 0): ErrorCode.UNKNOWN_TOPIC_ID}


def test_an_empty_commit_does_not_call_the_group(broker):
    answer = broker.call(OFFSET_COMMIT, 9, group_id="g", generation_id_or_member_epoch=5, member_id="m")
    assert answer.topics == []
    topics = [OffsetCommitRequestTopic(name="t")]
    assert broker.call(OFFSET_COMMIT, 9, group_id="g", generation_id_or_member_epoch=5, topics=topics).topics == []


def test_a_rejected_commit_is_rejected_for_each_partition(broker):
    topics = committed((0, 5), (1, 5), (9, 5))
    answer = broker.call(OFFSET_COMMIT, 9, group_id="g", generation_id_or_member_epoch=5, topics=topics)
    expected = ErrorCode.GROUP_ID_NOT_FOUND
    assert codes(answer) == {
        ("t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("t", 0): expected,
        ("t", 1): expected,
    }


# -- OffsetFetch ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(8))
def test_fetch_of_one_group(broker, version):
    broker.call(OFFSET_COMMIT, 9, group_id="g", topics=committed((0, 5)))
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]
    answer = broker.call(OFFSET_FETCH, version, group_id="g", topics=topics)
    (topic,) = answer.topics
    none = ErrorCode.NONE if version else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [(p.committed_offset, p.metadata, p.error_code) for p in topic.partitions] == [(5, "m", 0), (-1, "", none)]
    if version >= 2:
        (topic,) = broker.call(OFFSET_FETCH, version, group_id="g", topics=None).topics
        assert [(p.partition_index, p.committed_offset) for p in topic.partitions] == [(0, 5)]


def test_first_version_creates_the_offsets_topic():
    """Clients of that version never look for a coordinator."""
    broker = GroupBroker(partitions=0)
    broker.controller.add("t", TOPIC_ID)
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
    assert codes(broker.call(OFFSET_FETCH, 0, group_id="g", topics=topics)) == {
        ("t", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }
    assert broker.hosted
    assert codes(broker.call(OFFSET_COMMIT, 0, group_id="g", topics=committed((0, 5)))) == {("t", 0): ErrorCode.NONE}


@pytest.mark.parametrize("version", range(8, 11))
def test_fetch_of_many_groups(broker, version):
    broker.call(OFFSET_COMMIT, 9, group_id="g", topics=committed((0, 5)))
    topic = OffsetFetchRequestTopics(topic_id=TOPIC_ID) if version >= 10 else OffsetFetchRequestTopics(name="t")
    topic.partition_indexes = [0]
    groups = [
        OffsetFetchRequestGroup(group_id="g", topics=[topic]),
        OffsetFetchRequestGroup(group_id="nobody", topics=[topic]),
        OffsetFetchRequestGroup(group_id="g", topics=None),
    ]
    answer = broker.call(OFFSET_FETCH, version, groups=groups, require_stable=True)
    assert [group.error_code for group in answer.groups] == [0, 0, 0]
    assert [group.topics[0].partitions[0].committed_offset for group in answer.groups] == [5, -1, 5]
    for group in answer.groups:
        assert (group.topics[0].name or group.topics[0].topic_id) == ("t" if version < 10 else TOPIC_ID)


def test_fetch_by_ids_of_deleted_topics(broker):
    """A topic that the request names is unknown. A request for all offsets leaves it out."""
    broker.call(OFFSET_COMMIT, 9, group_id="g", topics=committed((0, 5)))
    del broker.controller.topics["t"]
    topic = OffsetFetchRequestTopics(topic_id=TOPIC_ID, partition_indexes=[0])
    groups = [OffsetFetchRequestGroup(group_id="g", topics=each) for each in ([topic], None)]
    first, second = broker.call(OFFSET_FETCH, 10, groups=groups).groups
    assert first.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert first.topics[0].partitions[0].committed_offset == -1
    assert second.topics == []


# -- administration ---------------------------------------------------------------------------------------------------


def test_offset_delete_reports_unknown_partitions(broker):
    broker.call(OFFSET_COMMIT, 9, group_id="g", topics=committed((0, 5), (1, 6)))

    def wanted(topic, *partitions):
        return OffsetDeleteRequestTopic(
            name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
        )

    answer = broker.call(OFFSET_DELETE, 0, group_id="g", topics=[wanted("t", 0, 9), wanted("u", 0), wanted("v")])
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(answer) == {("t", 9): unknown, ("t", 0): ErrorCode.NONE, ("u", 0): unknown}
    assert broker.groups.at("g").offsets.get("g", "t", 0) is None
    answer = broker.call(OFFSET_DELETE, 0, group_id="nobody", topics=[wanted("t", 0)])
    assert (code_of(answer), answer.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])


def test_groups_are_listed_filtered_and_described(broker):
    join(broker, 3)
    broker.call(OFFSET_COMMIT, 9, group_id="simple", topics=committed((0, 5)))
    listed = broker.call(LIST_GROUPS, 5, states_filter=[" completingREBALANCE"], types_filter=["Classic"]).groups
    assert [(each.group_id, each.group_state, each.group_type) for each in listed] == [
        ("g", "CompletingRebalance", "classic")
    ]
    assert len(broker.call(LIST_GROUPS, 0).groups) == 2
    assert broker.call(LIST_GROUPS, 5, types_filter=["nonsense"]).groups == []

    live, missing = broker.call(DESCRIBE_GROUPS, 6, groups=["g", "none"], include_authorized_operations=True).groups
    assert (live.group_state, live.authorized_operations, live.members[0].client_host) == (
        "CompletingRebalance",
        3400,
        "/127.0.0.1",
    )
    assert (missing.error_code, missing.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group none not found.")
    assert missing.authorized_operations == -(2**31)
    (plain,) = broker.call(DESCRIBE_GROUPS, 5, groups=["none"]).groups
    assert (plain.error_code, plain.group_state, plain.authorized_operations) == (0, "Dead", -(2**31))


@pytest.mark.parametrize("version", [2, 3])
def test_groups_are_deleted_once_each(broker, version):
    """From v3 on a result has room for a message, which these errors do not have."""
    join(broker, 3)
    broker.call(OFFSET_COMMIT, 9, group_id="simple", topics=committed((0, 5)))
    answer = broker.call(DELETE_GROUPS, version, groups_names=["g", "simple", "simple", "none"])
    assert [(each.group_id, each.error_code) for each in answer.results] == [
        ("g", ErrorCode.NON_EMPTY_GROUP),
        ("simple", ErrorCode.NONE),
        ("none", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert {each.error_message for each in answer.results} == {None}


@pytest.mark.parametrize(
    ("version", "code"), [(2, ErrorCode.UNKNOWN_SERVER_ERROR), (3, ErrorCode.GROUP_DELETION_FAILED)]
)
def test_older_clients_do_not_know_failed_deletions(version, code):
    """The code is as new as the version."""
    failed = answer_of({"g": ErrorCode.GROUP_DELETION_FAILED, "h": ErrorCode.NONE}, version)
    assert [each.error_code for each in failed.results] == [code, ErrorCode.NONE]


# -- FindCoordinator --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(4))
def test_find_coordinator_of_one_key(broker, version):
    answer = broker.call(FIND_COORDINATOR, version, key="g")
    assert (answer.error_code, answer.node_id, answer.host, answer.port) == (0, 1, "10.0.0.1", 9092)
    assert answer.error_message == ("NONE" if version else "")


@pytest.mark.parametrize("version", range(4, 7))
def test_find_coordinator_of_many_keys_creates_the_topic(version):
    broker = GroupBroker(partitions=0)
    answer = broker.call(FIND_COORDINATOR, version, coordinator_keys=["a", "", "a"], key_type=1)
    assert [(each.key, each.error_code, each.node_id, each.error_message) for each in answer.coordinators] == [
        ("a", 0, 1, ""),
        ("", 0, 1, ""),
        ("a", 0, 1, ""),
    ]
    assert set(broker.controller.topics) == {"__transaction_state"}


def test_without_the_offsets_topic_there_is_no_coordinator():
    broker = GroupBroker(partitions=0)
    broker.controller.refuses = True
    (found,) = broker.call(FIND_COORDINATOR, 4, coordinator_keys=["a"]).coordinators
    assert (found.error_code, found.node_id, found.host, found.port) == (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        -1,
        "",
        -1,
    )


def test_without_a_leader_there_is_no_coordinator(broker):
    for registration in broker.controller.topic("__consumer_offsets").partitions.values():
        registration.leader = -1
    answer = broker.call(FIND_COORDINATOR, 3, key="g")
    assert (code_of(answer), answer.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)


def test_unknown_key_types_are_rejected(broker):
    assert code_of(broker.call(FIND_COORDINATOR, 3, key="g", key_type=3)) is ErrorCode.INVALID_REQUEST
    (found,) = broker.call(FIND_COORDINATOR, 6, coordinator_keys=["g"], key_type=-1).coordinators
    assert found.error_code == ErrorCode.INVALID_REQUEST
    assert found.error_message


def test_share_keys_come_with_v6(broker):
    """Kafka 4.3 answers the same: a key has all of its parts, and its group may contain colons."""
    assert code_of(broker.call(FIND_COORDINATOR, 3, key=SHARE_KEY, key_type=2)) is ErrorCode.INVALID_REQUEST
    (found,) = broker.call(FIND_COORDINATOR, 5, coordinator_keys=[SHARE_KEY], key_type=2).coordinators
    assert (found.error_code, found.error_message) == (ErrorCode.INVALID_REQUEST, "")
    good = [SHARE_KEY, "a:b:WwYOpKZ6Qm6r1SIpRGOh9Q:1", "g:WwYOpKZ6Qm6r1SIpRGOh9Q:-1", "g:AAAAAAAAAAAAAAAAAAAAAA:0"]
    bad = [
        "a",
        "g:abc:0",
        "g:WwYOpKZ6Qm6r1SIpRGOh9Q:x",
        ":WwYOpKZ6Qm6r1SIpRGOh9Q:1",
        " g : WwYOpKZ6Qm6r1SIpRGOh9Q : 1 ",
        "g:WwYOpKZ6Qm6r1SIpRGOh9Q:9999999999",
    ]
    (found,) = broker.call(FIND_COORDINATOR, 6, coordinator_keys=["a"], key_type=2).coordinators
    assert found.error_code == ErrorCode.INVALID_REQUEST
    assert "__share_group_state" not in broker.controller.topics
    answer = broker.call(FIND_COORDINATOR, 6, coordinator_keys=good + bad, key_type=2)
    assert {each.key for each in answer.coordinators if each.error_code == 0} == set(good)
    assert {each.key for each in answer.coordinators if each.error_code == ErrorCode.INVALID_REQUEST} == set(bad)


def test_a_client_that_disconnects_meanwhile_gets_no_answer():
    broker = GroupBroker(partitions=0)
    waiting = broker.send(FIND_COORDINATOR, 3, key="g")
    waiting.cancel()
    broker.advance(0)
    assert "__consumer_offsets" in broker.controller.topics
