"""The phases of a rebalance and their deadlines."""

from coordinator.group.classic.state import GroupState
from coordinator.group.settings import GroupSettings
from protocol.error_codes import ErrorCode
from tests.support.groups import GroupHarness


def test_initial_delay_is_extended_by_new_members():
    """group.initial.rebalance.delay.ms, again after each delay in which a member joined."""
    h = GroupHarness()
    first = h.join(version=3)
    h.advance(2_000)
    second = h.join(version=3)
    h.advance(1_000)
    assert first.response is None
    h.advance(3_000)
    assert first.response.generation_id == second.response.generation_id == 1


def test_initial_delay_ends_at_the_rebalance_timeout():
    """3 s, 3 s, then the rest of the 7 s. As in Kafka, the rest is computed before the delay that follows."""
    h = GroupHarness()
    first = h.join(version=3, rebalance_ms=7_000)
    waited = 0
    while first.response is None:
        h.join(version=3, rebalance_ms=7_000)
        h.advance(100)
        waited += 100
    assert waited == 7_000


def test_initial_delay_of_zero_ends_with_the_next_check():
    h = GroupHarness(GroupSettings(initial_rebalance_delay_ms=0))
    parked = h.join(version=3)
    assert parked.response is None
    h.advance(0)
    assert parked.response.generation_id == 1


def test_slow_members_are_dropped_at_the_rebalance_timeout():
    """The longest timeout of all members counts."""
    h = GroupHarness()
    first, second = h.enter(rebalance_ms=20_000, session_ms=30_000), h.enter(rebalance_ms=10_000, session_ms=30_000)
    h.advance(6_000)
    leader, follower = first.response.member_id, second.response.member_id
    h.sync(follower, 1)
    h.sync(leader, 1, {})
    again = h.join(member_id=follower, protocols=[("range", b"other")], rebalance_ms=10_000)
    assert again.response is None
    h.advance(19_999)
    assert again.response is None
    h.advance(1)
    assert (again.response.generation_id, again.response.leader) == (2, follower)
    assert list(h.shard.classic("g").members) == [follower]
    assert h.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_pending_members_delay_a_rebalance():
    h = GroupHarness()
    leader, follower = h.stable_group(2)
    joined = h.join(member_id=leader)
    pending = h.join().response.member_id
    follower_joined = h.join(member_id=follower)
    assert joined.response is None
    h.join(member_id=pending)
    assert joined.response.generation_id == follower_joined.response.generation_id == 2


def test_pending_member_that_times_out_lets_the_rebalance_end():
    h = GroupHarness()
    leader, follower = h.stable_group(2)
    joined = h.join(member_id=leader, session_ms=100_000)
    h.join(session_ms=6_000)
    h.join(member_id=follower, session_ms=100_000)
    assert joined.response is None
    h.advance(6_000)
    assert joined.response.generation_id == 2


def test_members_that_do_not_sync_are_dropped():
    h = GroupHarness()
    first, second = h.enter(session_ms=100_000, rebalance_ms=20_000), h.enter(session_ms=100_000, rebalance_ms=20_000)
    h.advance(6_000)
    leader, follower = first.response.member_id, second.response.member_id
    waiting = h.sync(follower, 1)
    h.advance(20_000)
    assert waiting.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert list(h.shard.classic("g").members) == [follower]
    assert h.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_members_that_do_not_sync_later_are_dropped_too():
    h = GroupHarness()
    first, second = h.enter(session_ms=100_000, rebalance_ms=20_000), h.enter(session_ms=100_000, rebalance_ms=20_000)
    h.advance(6_000)
    leader, follower = first.response.member_id, second.response.member_id
    h.sync(leader, 1, {})
    h.advance(20_000)
    assert h.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert h.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_static_members_that_do_not_join_keep_their_place():
    """They are dropped at the end of their sessions, or because they do not sync."""
    h = GroupHarness()
    first, second = h.join(instance="one", session_ms=100_000), h.join(instance="two", session_ms=100_000)
    h.advance(6_000)
    leader, follower = first.response.member_id, second.response.member_id
    h.sync(follower, 1)
    h.sync(leader, 1, {})
    again = h.join(member_id=follower, instance="two", session_ms=100_000, protocols=[("range", b"other")])
    assert again.response is None
    h.advance(60_000)
    assert (again.response.generation_id, again.response.leader, len(again.response.members)) == (2, follower, 2)


def test_rebalance_waits_for_static_members():
    h = GroupHarness()
    first, second = h.join(instance="one", session_ms=200_000), h.join(instance="two", session_ms=200_000)
    dynamic = h.enter(session_ms=6_000)
    h.advance(9_000)
    generation = first.response.generation_id
    ids = [each.response.member_id for each in (first, second, dynamic)]
    for member in ids[1:]:
        h.sync(member, generation)
    h.sync(ids[0], generation, {})
    h.leave((ids[2], None))
    h.advance(60_000)
    assert h.shard.classic("g").state is GroupState.PREPARING_REBALANCE
    assert "no member has joined" in str(h.notes[-1])
    h.join(member_id=ids[0], instance="one", session_ms=200_000)
    back = h.join(member_id=ids[1], instance="two", session_ms=200_000)
    assert back.response.generation_id == generation + 1


def test_timeouts_below_zero_do_not_keep_the_coordinator_busy():
    """Static members that do not join are checked once a second, until their sessions end."""
    h = GroupHarness()
    static = [h.join(instance=name, session_ms=30_000) for name in ("one", "two")]
    dynamic = h.enter(session_ms=30_000)
    h.advance(9_000)
    group = h.shard.classic("g")
    for each in (*static, dynamic):
        h.sync(each.response.member_id, 1, {})
    for member in group.members.values():
        member.rebalance_timeout_ms = -1
    h.leave((dynamic.response.member_id, None))
    assert group.rebalance_timeout_ms == 0
    before = len(h.notes)
    h.advance(10_000)
    assert group.state is GroupState.PREPARING_REBALANCE
    assert len(h.notes) - before == 11
    h.advance(30_000)
    assert group.state is GroupState.EMPTY


def test_group_is_empty_if_its_first_member_times_out():
    h = GroupHarness(GroupSettings(initial_rebalance_delay_ms=600_000))
    parked = h.join(version=3, rebalance_ms=700_000)
    h.advance(300_000)
    assert parked.code is ErrorCode.UNKNOWN_MEMBER_ID
    group = h.shard.classic("g")
    assert (group.state, group.generation, group.leader_id) == (GroupState.EMPTY, 1, None)


def test_dead_member_starts_a_rebalance_of_the_others():
    h = GroupHarness()
    leader, follower = h.stable_group(2)
    h.advance(9_999)
    assert h.heartbeat(follower, 1) is ErrorCode.NONE
    h.advance(1)
    assert h.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert h.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.join(member_id=follower).response.generation_id == 2


def test_empty_group_is_written_after_the_last_timeout():
    h = GroupHarness()
    h.stable_group()
    h.advance(10_000)
    group = h.shard.classic("g")
    assert (group.state, group.generation, group.protocol_name, group.leader_id) == (GroupState.EMPTY, 2, None, None)
    assert group.protocol_type == "consumer"
    assert h.reloaded().shard.classic("g").metadata() == group.metadata()


def test_group_is_empty_even_if_that_cannot_be_written():
    h = GroupHarness()
    h.stable_group()
    h.failure = ErrorCode.NOT_COORDINATOR
    h.advance(10_000)
    assert h.shard.classic("g").state is GroupState.EMPTY


def test_parked_members_do_not_time_out():
    """A parked member counts as alive; its session restarts with the response."""
    h = GroupHarness()
    leader, follower = h.stable_group(2, session_ms=10_000, rebalance_ms=60_000)
    joined = h.join(member_id=leader, session_ms=10_000)
    for _ in range(5):
        h.advance(9_000)
        h.heartbeat(follower, 1)
    assert joined.response is None
    h.join(member_id=follower)
    waiting = h.sync(follower, 2)
    for _ in range(5):
        h.advance(9_000)
        assert h.heartbeat(leader, 2) is ErrorCode.NONE
    h.sync(leader, 2, {})
    assert waiting.code is ErrorCode.NONE
    h.advance(9_999)
    assert h.heartbeat(follower, 2) is ErrorCode.NONE
