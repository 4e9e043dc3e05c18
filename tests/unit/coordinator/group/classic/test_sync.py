"""SyncGroup, Heartbeat and LeaveGroup."""

from coordinator.group.classic.leave import answer_for, members_of
from coordinator.group.classic.state import GroupState
from protocol.error_codes import ErrorCode
from protocol.messages.leave_group import LEAVE_GROUP, MemberResponse


def two_joined(h):
    """Return (leader, follower) of generation 1, before their syncs."""
    first, second = h.enter(), h.enter()
    h.advance(6_000)
    return first.response.member_id, second.response.member_id


def test_syncs_are_answered_after_the_leaders(h):
    leader, follower = two_joined(h)
    waiting = h.sync(follower, 1)
    assert waiting.response is None
    done = h.sync(leader, 1, {follower: b"f"})
    assert (waiting.code, waiting.response.assignment) == (ErrorCode.NONE, b"f")
    assert (done.response.assignment, done.response.protocol_type, done.response.protocol_name) == (
        b"",
        "consumer",
        "range",
    )
    assert h.shard.classic("g").state is GroupState.STABLE
    assert h.sync(follower, 1).response.assignment == b"f"


def test_stable_generation_is_in_the_log(h):
    h.stable_group(3)
    again = h.reloaded().shard.classic("g")
    assert again.metadata() == h.shard.classic("g").metadata()
    assert (again.state, again.generation, len(again.members)) == (GroupState.STABLE, 1, 3)


def test_failed_write_of_assignments_rebalances(h):
    leader, follower = two_joined(h)
    waiting = h.sync(follower, 1)
    h.failure = ErrorCode.NOT_COORDINATOR
    done = h.sync(leader, 1, {follower: b"f"})
    assert waiting.code is done.code is ErrorCode.NOT_COORDINATOR
    group = h.shard.classic("g")
    assert group.state is GroupState.PREPARING_REBALANCE
    assert {member.assignment for member in group.members.values()} == {b""}


def test_sync_checks_member_generation_protocol_and_state(h):
    assert h.sync("m", 1).code is ErrorCode.UNKNOWN_MEMBER_ID
    leader, follower = two_joined(h)
    assert h.sync("nobody", 1).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.sync(leader, 0).code is ErrorCode.ILLEGAL_GENERATION
    assert h.sync(leader, 1, instance="x").code is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.sync(leader, 1, protocol_type="connect").code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert h.sync(leader, 1, protocol_name="sticky").code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert h.sync(leader, 1, {}, protocol_type="consumer", protocol_name="range").code is ErrorCode.NONE
    h.join(member_id=leader)
    assert h.sync(follower, 1).code is ErrorCode.REBALANCE_IN_PROGRESS


def test_heartbeat_checks_member_and_generation(h):
    assert h.heartbeat("m", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    leader, _ = two_joined(h)
    assert h.heartbeat("nobody", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.heartbeat(leader, 2) is ErrorCode.ILLEGAL_GENERATION
    assert h.heartbeat(leader, 1, "x") is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.heartbeat(leader, 1) is ErrorCode.NONE


def test_heartbeats_keep_a_session_up(h):
    (member,) = h.stable_group()
    for _ in range(10):
        h.advance(9_000)
        assert h.heartbeat(member, 1) is ErrorCode.NONE
    h.advance(10_000)
    assert h.heartbeat(member, 1) is ErrorCode.UNKNOWN_MEMBER_ID


# -- LeaveGroup -------------------------------------------------------------------------------------------------------


def test_last_member_that_leaves_makes_the_group_empty(h):
    (member,) = h.stable_group()
    assert h.leave((member, None)) == [ErrorCode.NONE]
    group = h.shard.classic("g")
    assert (group.state, group.generation) == (GroupState.EMPTY, 2)


def test_others_rebalance_when_members_leave(h):
    leader, one, two = h.stable_group(3)
    assert h.leave((leader, None), (one, None), ("nobody", None)) == [0, 0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert h.heartbeat(two, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert h.join(member_id=two).response.leader == two


def test_member_that_leaves_ends_a_join_phase_that_waited_for_it(h):
    leader, follower = h.stable_group(2)
    joined = h.join(member_id=leader)
    h.leave((follower, None))
    assert joined.response.generation_id == 2


def test_parked_join_of_a_removed_member_is_answered(h):
    leader, _ = h.stable_group(2)
    joined = h.join(member_id=leader)
    h.leave((leader, None))
    assert (joined.code, joined.response.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")


def test_parked_sync_of_a_removed_member_is_answered(h):
    _, follower = two_joined(h)
    waiting = h.sync(follower, 1)
    h.leave((follower, None))
    assert waiting.code is ErrorCode.UNKNOWN_MEMBER_ID


def test_pending_member_can_leave(h):
    pending = h.join().response.member_id
    assert h.leave((pending, None)) == [ErrorCode.NONE]
    assert h.shard.classic("g").pending_joins == {}
    assert len(h.timers) == 0


def test_static_members_leave_by_instance_id(h):
    """KIP-345: administrators do not know member ids."""
    first, second = h.join(instance="one"), h.join(instance="two")
    h.advance(6_000)
    member = first.response.member_id
    assert h.leave(("", "one"), ("", "three"), ("", None), (second.response.member_id, "one")) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert member not in h.shard.classic("g").members
    assert h.leave(("wrong", "two")) == [ErrorCode.FENCED_INSTANCE_ID]


def test_leaving_a_missing_group_is_an_error_per_member(h):
    assert h.leave(("a", None), ("b", None)) == [ErrorCode.UNKNOWN_MEMBER_ID] * 2


def test_old_versions_name_one_member_and_get_one_code():
    request = LEAVE_GROUP.request(group_id="g", member_id="m")
    assert [member.member_id for member in members_of(request, 2)] == ["m"]
    response = LEAVE_GROUP.response(members=[MemberResponse(member_id="m", error_code=25)])
    assert answer_for(response, 2) == LEAVE_GROUP.response(error_code=25)
    assert answer_for(response, 3) is response
    assert members_of(LEAVE_GROUP.request(members=[]), 3) == []
