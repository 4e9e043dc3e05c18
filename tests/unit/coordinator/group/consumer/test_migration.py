"""Conversion from classic to consumer and back: cases that conformance tests cannot reach."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from coordinator.group.classic.state import GroupState
from coordinator.group.consumer.embedded import read_assignment, version_of, write_assignment
from coordinator.group.settings import ConsumerSettings, GroupSettings, MigrationPolicy
from protocol.error_codes import ErrorCode, ProtocolError
from protocol.messages.data import ConsumerProtocolAssignment
from protocol.messages.data.consumer_protocol import ConsumerProtocolAssignmentTopicPartition
from tests.support.consumer_groups import ConsumerHarness, assigned, by_name, topic_id
from tests.support.groups import ParkedRequest, subscription

ALL = {"t": [0, 1, 2, 3]}


def harness(policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL, **settings: int) -> ConsumerHarness:
    consumer = ConsumerSettings(migration=policy)
    return ConsumerHarness(GroupSettings(initial_rebalance_delay_ms=0, consumer=consumer, **settings))


def given(partitions: Mapping[str, list[int]], user_data: bytes | None = None) -> bytes:
    """Return an assignment as a leader writes it."""
    topics = [
        ConsumerProtocolAssignmentTopicPartition(topic=name, partitions=each) for name, each in partitions.items()
    ]
    value = ConsumerProtocolAssignment(assigned_partitions=topics, user_data=user_data)
    return b"\0\0" + ConsumerProtocolAssignment.encode(0, value)


def classic_member(h: ConsumerHarness, assignment: bytes | None = None) -> str:
    """Return a stable classic group with one member."""
    parked = h.enter()
    h.advance(0)
    assert parked.response is not None
    member_id: str = parked.response.member_id
    h.sync(member_id, 1, {member_id: given(ALL) if assignment is None else assignment})
    return member_id


def read(parked: ParkedRequest) -> dict[str, list[int]]:
    """Return the assignment in a sync's response."""
    assert parked.response is not None
    topics = read_assignment(parked.response.assignment).assigned_partitions
    return {topic.topic: topic.partitions for topic in topics}


def rejoin(h: ConsumerHarness, member_id: str) -> ParkedRequest:
    return h.join(member_id=member_id, protocols=(("range", subscription("t")),))


def test_classic_member_keeps_partitions_until_it_rejoins() -> None:
    h = harness()
    x = classic_member(h)
    assert assigned(h.enter_consumer("a")) == {}
    assert by_name(h.group.members[x].assigned) == ALL
    assert h.heartbeat(x, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    # Old clients do not report their partitions: they have given them up once they send SyncGroup.
    rejoin(h, x)
    assert h.reloaded().group.members == h.group.members


def test_parked_requests_are_answered_at_an_upgrade() -> None:
    h = harness()
    x = classic_member(h)
    y = h.enter()
    assert h.shard.classic("g").state is GroupState.PREPARING_REBALANCE  # type: ignore[union-attr]
    h.enter_consumer("a")
    assert y.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert x in h.group.members


def test_classic_member_that_does_not_rejoin_is_fenced() -> None:
    """It has its rebalance timeout to join, after a heartbeat, and another one to sync."""
    h = harness()
    x = classic_member(h)
    h.enter_consumer("a")
    for _ in range(12):
        assert h.heartbeat(x, 1) is ErrorCode.REBALANCE_IN_PROGRESS
        h.beat("a", 2, {})
        h.advance(5_000)
    assert set(h.group.members) == {"a"}
    assert "did not join again" in str(h.notes[-1])
    h.settle(["a"])
    assert by_name(h.group.members["a"].assigned) == ALL


def test_classic_member_that_does_not_sync_is_fenced() -> None:
    h = harness()
    h.enter_consumer("a")
    x = h.enter().response
    assert x is not None
    for _ in range(12):
        assert x.member_id in h.group.members
        h.heartbeat(x.member_id, h.group.members[x.member_id].epoch)
        h.beat("a", h.group.members["a"].epoch, by_name(h.group.members["a"].assigned))
        h.advance(5_000)
    assert x.member_id not in h.group.members


def test_classic_session_is_the_members_own() -> None:
    h = harness()
    x = classic_member(h)
    h.enter_consumer("a")
    h.advance(9_999)
    assert x in h.group.members
    h.advance(1)
    assert x not in h.group.members


@pytest.mark.parametrize(
    ("policy", "up", "down"),
    [
        (MigrationPolicy.DISABLED, False, False),
        (MigrationPolicy.UPGRADE, True, False),
        (MigrationPolicy.DOWNGRADE, False, True),
        (MigrationPolicy.BIDIRECTIONAL, True, True),
    ],
)
def test_policy_limits_the_migration(policy: MigrationPolicy, up: bool, down: bool) -> None:
    h = harness(policy)
    classic_member(h)
    answer = h.enter_consumer("a")
    if up:
        assert answer.error_code == ErrorCode.NONE
    else:
        assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert answer.error_message.endswith("because online upgrade is disabled.")
        assert h.shard.classic("g") is not None
    h = harness(policy)
    h.enter_consumer("a")
    code = h.join().code
    assert code is (
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL if policy is MigrationPolicy.DISABLED else ErrorCode.MEMBER_ID_REQUIRED
    )
    if policy is not MigrationPolicy.DISABLED:
        h.enter()
        h.beat("a", -1)
        assert (h.shard.classic("g") is not None) == down


def test_assignments_of_other_assignors_are_not_lost() -> None:
    h = harness()
    classic_member(h, given(ALL, b"mine"))
    answer = h.enter_consumer("a")
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "unsupported custom assignor" in answer.error_message


def test_malformed_metadata_keeps_a_group_classic() -> None:
    h = harness()
    classic_member(h, b"\0")
    answer = h.enter_consumer("a")
    assert answer.error_message.endswith("because the embedded consumer protocol is malformed.")
    assert h.shard.classic("g") is not None


def test_groups_too_large_for_the_other_kind_are_kept() -> None:
    h = ConsumerHarness(GroupSettings(initial_rebalance_delay_ms=0, consumer=ConsumerSettings(max_size=0)))
    classic_member(h)
    assert "exceeds the consumer group maximum size" in h.enter_consumer("a").error_message
    h = harness(max_size=0)
    h.enter_consumer("a")
    h.enter()
    h.beat("a", -1)
    assert h.shard.consumer("g") is not None


def test_group_without_a_protocol_is_not_converted() -> None:
    h = ConsumerHarness()
    h.enter()
    assert h.enter_consumer("a").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_failed_conversion_changes_nothing() -> None:
    h = harness()
    x = classic_member(h)
    h.failure = ErrorCode.NOT_COORDINATOR
    assert h.enter_consumer("a").error_code == ErrorCode.NOT_COORDINATOR
    h.failure = ErrorCode.NONE
    assert h.heartbeat(x, 1) is ErrorCode.NONE
    h.enter_consumer("a")
    h.failure = ErrorCode.NOT_COORDINATOR
    assert h.join(member_id=x, protocols=(("range", subscription("t")),)).code is ErrorCode.NOT_COORDINATOR
    assert h.beat("a", -1).error_code == ErrorCode.NOT_COORDINATOR
    assert h.shard.consumer("g") is not None


def test_last_consumer_leaves_and_the_others_rebalance() -> None:
    """Their assignments are their last targets, under all protocols that they support."""
    h = harness()
    h.enter_consumer("a")
    member = h.enter(protocols=(("range", subscription("t")), ("roundrobin", subscription("t")))).response
    assert member is not None
    h.beat("a", -1)
    group = h.shard.classic("g")
    assert group is not None
    assert group.state is GroupState.PREPARING_REBALANCE
    assert [protocol.name for protocol in group.members[member.member_id].protocols] == ["range", "roundrobin"]
    assert h.heartbeat(member.member_id, group.generation) is ErrorCode.REBALANCE_IN_PROGRESS
    loaded = h.reloaded().shard.classic("g")
    assert loaded is not None
    assert loaded.state is GroupState.STABLE
    assert by_name({topic_id("t"): [0, 1]}) == {"t": [0, 1]}


def test_assignment_has_its_members_version() -> None:
    h = harness()
    assert write_assignment(1, {topic_id("t"): {1, 0}, topic_id("gone"): {0}}, h.topics)[:2] == b"\0\1"
    assert (version_of(b"\0\2..."), version_of(b"\0\x63")) == (2, 3)
    for data in (b"", b"\0", b"\xff\xff"):
        with pytest.raises(ProtocolError):
            version_of(data)


def test_classic_member_gets_its_partitions_with_the_sync() -> None:
    h = harness()
    parked = h.enter()
    h.advance(0)
    member = parked.response
    assert member is not None
    h.sync(member.member_id, 1, {member.member_id: given({})})
    h.enter_consumer("a")
    joined = rejoin(h, member.member_id)
    assert joined.response is not None
    synced = h.sync(member.member_id, joined.response.generation_id)
    mine = read(synced)
    assert len(mine["t"]) == 2
    assert sorted(mine["t"] + by_name(h.group.members["a"].assigned)["t"]) == ALL["t"]


def test_rejected_join_is_answered_without_a_member_id() -> None:
    """As in Apache Kafka, a group of the consumer protocol rejects it without an id."""
    h = harness(MigrationPolicy.BIDIRECTIONAL)
    h.enter_consumer("a")
    h.enter()
    answer = h.join(member_id="a", protocol_type="connect")
    assert (answer.code, answer.response.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
