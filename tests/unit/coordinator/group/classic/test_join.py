"""JoinGroup: member ids, protocols, sizes, static members."""

import pytest

from coordinator.group.classic.join import FIRST_VERSION_NEEDING_MEMBER_ID
from coordinator.group.classic.state import GroupState
from coordinator.group.settings import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupSettings
from protocol.error_codes import ErrorCode
from tests.support.groups import GroupHarness, subscription

RANGE = ("range", subscription("t"))
ROUND = ("roundrobin", subscription("t"))


def ids(parked):
    return [member.member_id for member in parked.response.members]


def test_new_member_gets_an_id_and_has_to_join_again(h):
    """KIP-394: v4 and up."""
    first = h.join(version=4)
    assert first.code is ErrorCode.MEMBER_ID_REQUIRED
    assert first.response.member_id == "client-uuid1"
    assert first.response.generation_id == -1
    group = h.shard.classic("g")
    assert group.state is GroupState.EMPTY
    assert not group.members

    second = h.join(member_id="client-uuid1", version=4)
    h.advance(3_000)
    assert second.code is ErrorCode.NONE
    assert (second.response.leader, ids(second)) == ("client-uuid1", ["client-uuid1"])


def test_old_client_is_a_member_at_once(h):
    parked = h.join(version=FIRST_VERSION_NEEDING_MEMBER_ID - 1)
    h.advance(2_999)
    assert parked.response is None
    h.advance(1)
    assert (parked.code, parked.response.generation_id, parked.response.protocol_name) == (0, 1, "range")
    assert parked.response.protocol_type == "consumer"


def test_client_without_an_id_gets_one_that_starts_with_a_dash(h):
    assert h.join(client_id=None).response.member_id == "-uuid1"


def test_new_group_is_written_before_its_first_member(h):
    """Kafka writes the empty group, generation 0, with the first join."""
    h.join()
    assert h.log == [
        (b"\0\x02\0\x01g", b"\0\x03\0\0" + bytes(4) + b"\xff" * 4 + h.wall_ms.to_bytes(8, "big") + bytes(4))
    ]
    h.join()
    assert len(h.log) == 1


def test_new_group_that_cannot_be_written_does_not_exist(h):
    h.failure = ErrorCode.NOT_COORDINATOR
    assert h.join().code is ErrorCode.NOT_COORDINATOR
    assert h.shard.groups == {}


def test_unused_pending_id_times_out(h):
    member = h.join(session_ms=10_000).response.member_id
    h.advance(10_000)
    assert h.shard.classic("g").pending_joins == {}
    assert h.join(member_id=member).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert "has not joined in time" in str(h.notes[-1])


def test_unknown_ids_are_rejected(h):
    """UNKNOWN_MEMBER_ID without a group, in an empty one, and in a live one."""
    assert h.join(member_id="nobody").code is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.shard.groups == {}
    h.join()
    assert h.join(member_id="nobody").code is ErrorCode.UNKNOWN_MEMBER_ID
    h.stable_group()
    refused = h.join(member_id="nobody")
    assert (refused.code, refused.response.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "nobody")


@pytest.mark.parametrize(("session_ms", "group_id"), [(5_999, "g"), (1_800_001, "g"), (10_000, "")])
def test_session_timeout_and_group_id_are_checked_first(h, session_ms, group_id):
    parked = h.join(group_id, "m", session_ms=session_ms)
    expected = ErrorCode.INVALID_SESSION_TIMEOUT if group_id else ErrorCode.INVALID_GROUP_ID
    assert (parked.code, parked.response.member_id) == (expected, "m")
    assert h.shard.groups == {}


def test_v0_session_timeout_is_the_rebalance_timeout(h):
    h.join(version=0, session_ms=12_345, rebalance_ms=-1)
    (member,) = h.shard.classic("g").members.values()
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (12_345, 12_345)


# -- protocols --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("protocol_type", "protocols"), [("", [RANGE]), ("consumer", [])])
def test_first_member_needs_a_protocol(h, protocol_type, protocols):
    assert h.join(protocol_type=protocol_type, protocols=protocols).code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_protocol_type_and_a_common_protocol_are_needed(h):
    member = h.stable_group()[0]
    assert h.join(protocol_type="connect").code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert h.join(protocols=[ROUND]).code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    again = h.join(member_id=member, protocols=[ROUND])
    assert (again.code, again.response.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member)


def test_protocol_with_most_votes_wins_among_the_common_ones(h):
    """Two members prefer roundrobin, one prefers range; not all support sticky."""
    first = h.enter(protocols=[("sticky", b""), RANGE, ROUND], version=3)
    second = h.enter(protocols=[ROUND, RANGE], version=3)
    third = h.enter(protocols=[ROUND, RANGE, ("sticky", b"")], version=3)
    h.advance(6_000)
    assert {each.response.protocol_name for each in (first, second, third)} == {"roundrobin"}
    leader = next(each for each in (first, second, third) if each.response.members)
    assert {member.metadata for member in leader.response.members} == {ROUND[1]}


def test_protocol_that_a_member_names_twice_counts_once(h):
    """A member without a common protocol is rejected; the first metadata of a duplicate name counts."""
    h.enter(protocols=[RANGE, ("range", b"again"), ROUND], version=3)
    h.enter(protocols=[ROUND], version=3)
    assert h.join(protocols=[RANGE], version=3).code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    h.advance(6_000)
    assert h.shard.classic("g").protocol_name == "roundrobin"
    twice = h.enter("h", protocols=[RANGE, ("range", b"again")], version=3)
    h.advance(6_000)
    assert [member.metadata for member in twice.response.members] == [RANGE[1]]


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\0",
        b"\0\0",
        subscription("t")[:-6],
        b"\0\0\xff\xff\xff\xff",
        b"\0\0\x7f\xff\xff\xff",
    ],
    ids=["nothing", "half a version", "a version", "cut", "null", "too many"],
)
def test_unreadable_consumer_metadata_is_passed_on(h, metadata):
    """As in Kafka, the leader interprets it. Here only the topics are unknown, so any offset may be in use."""
    member = h.stable_group(protocols=[("range", metadata)])[0]
    for harness in (h, h.reloaded()):
        group = harness.shard.classic("g")
        assert (group.subscribed_topics, group.is_subscribed_to("t")) == (None, True)
        assert group.members[member].metadata_for("range") == metadata


def test_only_the_leader_sees_the_members(h):
    first, second = h.enter(), h.enter()
    h.advance(6_000)
    assert len(first.response.members) == 2
    assert second.response.members == []
    assert first.response.leader == second.response.leader == first.response.member_id


# -- joining again ----------------------------------------------------------------------------------------------------


def test_unchanged_follower_gets_the_stable_generation(h):
    _, follower = h.stable_group(2)
    again = h.join(member_id=follower)
    assert (again.code, again.response.generation_id, again.response.members) == (0, 1, [])
    assert h.shard.classic("g").state is GroupState.STABLE


def test_follower_with_changes_starts_a_rebalance(h):
    leader, follower = h.stable_group(2)
    again = h.join(member_id=follower, protocols=[("range", subscription("other"))])
    assert again.response is None
    assert h.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    h.join(member_id=leader)
    assert again.response.generation_id == 2
    assert h.shard.classic("g").subscribed_topics == {"t", "other"}


def test_leader_starts_a_rebalance_by_joining(h):
    leader, follower = h.stable_group(2)
    again = h.join(member_id=leader)
    assert again.response is None
    h.join(member_id=follower)
    assert (again.response.generation_id, again.response.leader) == (2, leader)


def test_member_that_missed_its_response_gets_it_again(h):
    """In CompletingRebalance the same metadata gets the same generation, and the leader also gets the members."""
    first, second = h.enter(), h.enter()
    h.advance(6_000)
    assert len(h.join(member_id=first.response.member_id).response.members) == 2
    assert h.join(member_id=second.response.member_id).response.members == []


def test_changed_member_restarts_the_sync_phase(h):
    first, second = h.enter(), h.enter()
    h.advance(6_000)
    waiting = h.sync(second.response.member_id, 1)
    h.join(member_id=first.response.member_id, protocols=[RANGE, ROUND])
    assert waiting.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert h.shard.classic("g").state is GroupState.PREPARING_REBALANCE


def test_member_that_joins_twice_is_answered_once(h):
    """The client has abandoned its first request; the second replaces it."""
    leader, follower = h.stable_group(2)
    h.join(member_id=leader)
    later = h.join(member_id=leader)
    assert h.shard.classic("g").awaiting_join_count == 1
    h.join(member_id=follower)
    assert later.code is ErrorCode.NONE


# -- sizes ------------------------------------------------------------------------------------------------------------


def test_full_group_accepts_only_its_members(h):
    h = GroupHarness(GroupSettings(max_size=2))
    leader, follower = h.stable_group(2)
    refused = h.join()
    assert (refused.code, refused.response.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    h.join(member_id=leader)
    assert h.join(member_id=follower).code is ErrorCode.NONE


def test_only_joined_members_count_during_a_rebalance(h):
    h = GroupHarness(GroupSettings(max_size=2))
    leader, follower = h.stable_group(2)
    h.join(member_id=leader)
    newcomer = h.join(version=3)
    assert newcomer.response is None
    assert h.join(member_id=follower).code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert follower not in h.shard.classic("g").members


def test_empty_group_accepts_any_member(h):
    h = GroupHarness(GroupSettings(max_size=1))
    (member,) = h.stable_group()
    h.leave((member, None))
    assert h.join().code is ErrorCode.MEMBER_ID_REQUIRED


# -- new members that stay parked -------------------------------------------------------------------------------------


def test_new_member_times_out_while_parked(h):
    """It has no session before it knows its id; a dead one must not block the group for ever."""
    leader, _ = h.stable_group(2, session_ms=1_800_000, rebalance_ms=900_000)
    parked = h.join(version=3)
    h.join(member_id=leader, rebalance_ms=900_000)
    h.advance(NEW_MEMBER_JOIN_TIMEOUT_MS)
    assert (parked.code, parked.response.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")


# -- static members ---------------------------------------------------------------------------------------------------


def test_static_member_gets_its_id_at_once(h):
    """KIP-345."""
    parked = h.join(instance="one")
    h.advance(3_000)
    assert (parked.code, parked.response.member_id) == (ErrorCode.NONE, "one-uuid1")
    assert parked.response.members[0].group_instance_id == "one"


def test_static_follower_returns_without_a_rebalance(h):
    old, leader, _ = static_pair(h)
    back = h.join(instance="two", version=9)
    assert (back.code, back.response.generation_id, back.response.leader) == (ErrorCode.NONE, 1, leader)
    assert back.response.member_id != old
    assert not back.response.skip_assignment
    group = h.shard.classic("g")
    assert (group.state, set(group.members)) == (GroupState.STABLE, {leader, back.response.member_id})
    assert h.sync(back.response.member_id, 1).response.assignment == old.encode()
    assert h.heartbeat(old, 1, "two") is ErrorCode.FENCED_INSTANCE_ID
    assert h.heartbeat(old, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.reloaded().shard.classic("g").metadata() == group.metadata()


def static_pair(h, version=9):
    """Return (follower, leader, harness) with the instances "two" and "one"."""
    first, second = h.join(instance="one", version=version), h.join(instance="two", version=version)
    h.advance(6_000)
    leader, follower = first.response.member_id, second.response.member_id
    h.sync(follower, 1)
    h.sync(leader, 1, {leader: leader.encode(), follower: follower.encode()})
    return follower, leader, h


def test_static_leader_skips_the_assignment(h):
    """KIP-814, v9: it stays leader and gets the members, but does not assign."""
    _, leader, _ = static_pair(h)
    back = h.join(instance="one", version=9)
    assert (back.response.leader, back.response.skip_assignment) == (back.response.member_id, True)
    assert len(back.response.members) == 2
    assert h.shard.classic("g").leader_id != leader


def test_old_static_leader_does_not_learn_that_it_leads(h):
    _, leader, _ = static_pair(h)
    back = h.join(instance="one", version=8)
    assert (back.response.leader, back.response.members, back.response.skip_assignment) == (leader, [], False)


def test_failed_static_replacement_changes_nothing(h):
    follower, leader, _ = static_pair(h)
    before = h.shard.classic("g").metadata()
    h.failure = ErrorCode.NOT_COORDINATOR
    back = h.join(instance="two")
    assert (back.code, back.response.member_id, back.response.leader) == (ErrorCode.NOT_COORDINATOR, "", leader)
    assert h.shard.classic("g").metadata() == before
    assert h.heartbeat(follower, 1, "two") is ErrorCode.NONE


def test_static_member_with_another_protocol_rebalances(h):
    both = [RANGE, ROUND]
    first = h.join(instance="one", protocols=both)
    h.advance(3_000)
    old = first.response.member_id
    h.sync(old, 1, {})
    back = h.join(instance="one", protocols=[ROUND, RANGE])
    assert (back.response.generation_id, back.response.protocol_name) == (2, "roundrobin")
    assert h.shard.classic("g").state is GroupState.COMPLETING_REBALANCE


def test_returning_static_member_fences_its_parked_join(h):
    _, leader, _ = static_pair(h)
    parked = h.join(member_id=leader, instance="one")
    assert parked.response is None
    back = h.join(instance="one")
    assert (parked.code, parked.response.member_id) == (ErrorCode.FENCED_INSTANCE_ID, leader)
    assert back.response is None


def test_returning_static_member_restarts_the_sync_phase(h):
    first, second = h.join(instance="one"), h.join(instance="two")
    h.advance(6_000)
    waiting = h.sync(second.response.member_id, 1, instance="two")
    h.join(instance="two")
    assert waiting.code is ErrorCode.FENCED_INSTANCE_ID
    assert h.shard.classic("g").state is GroupState.PREPARING_REBALANCE
    assert h.heartbeat(first.response.member_id, 1, "one") is ErrorCode.REBALANCE_IN_PROGRESS


def test_static_ids_are_checked_when_joining_again(h):
    follower, leader, _ = static_pair(h)
    assert h.join(member_id=follower, instance="one").code is ErrorCode.FENCED_INSTANCE_ID
    assert h.join(member_id=leader, instance="three").code is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("first", "second"), [(("range", "sticky"), ("sticky", "range")), (("sticky", "range"), ("range", "sticky"))]
)
def test_tied_protocols_follow_javas_order(h, first, second):
    """As in Apache Kafka, whoever joined first: clients must not depend on the broker that serves them."""
    for names in (first, second):
        h.join(version=3, protocols=[(name, subscription("t")) for name in names])
    h.advance(6_000)
    assert h.shard.classic("g").protocol_name == "sticky"


def test_pending_dynamic_id_is_not_for_a_static_member(h):
    """As in Kafka the error is UNKNOWN_SERVER_ERROR, and the id stays valid."""
    member_id = h.join().response.member_id
    refused = h.join(member_id=member_id, instance="i")
    assert (refused.code, refused.response.member_id) == (ErrorCode.UNKNOWN_SERVER_ERROR, "")
    accepted = h.join(member_id=member_id)
    h.advance(3_000)
    assert accepted.code is ErrorCode.NONE


@pytest.mark.parametrize("names", [{"instance": "i" * 32_762}, {"client_id": "c" * 32_762}])
def test_a_client_id_too_long_for_a_member_id_is_rejected(h, names):
    """An id is the client id, a dash and a UUID, and has to fit into a string of the protocol."""
    assert h.join(**names).code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert not h.shard.classic("g").members
    assert not h.shard.classic("g").pending_joins
