"""ListGroups, DescribeGroups, DeleteGroups, deleted topics, and groups of other protocols."""

from coordinator.effects import Effects
from coordinator.group.admin import delete_group, describe_group, list_groups, topic_deleted_records
from coordinator.group.deadlines import on_deadline
from coordinator.group.offset_commit import check_delete
from coordinator.group.records import (
    CommittedOffset,
    GroupMetadata,
    GroupRecord,
    MemberMetadata,
    OffsetRecord,
)
from coordinator.group.settings import GroupSettings
from coordinator.group.shard import TimerKey
from coordinator.group.share.group import ShareGroup
from coordinator.group.share.member import ShareMember
from coordinator.group.share.records import GroupEpoch, ShareGroupRecord
from coordinator.group.streams.records import StreamsRecord, TargetEpoch
from protocol.error_codes import ErrorCode
from tests.support.groups import subscription

TOPIC_ID, OTHER_ID = bytes(range(16)), bytes(range(1, 17))


def share(record_type, *, value=True, group_id="f", name=""):
    """Return a record of a share group: type 10 of a member, 11 of the group."""
    content = ShareMember(name) if record_type == 10 else GroupEpoch(1, 0)
    return ShareGroupRecord(group_id, record_type, name, content if value else None)


def listed(h, states=(), types=()):
    return {(g.group_id, g.protocol_type, g.group_state, g.group_type) for g in list_groups(h.shard, states, types)}


def test_groups_are_listed_with_type_and_state(h):
    h.stable_group(group_id="live")
    h.commit({("t", 0): 1}, group_id="simple")
    h.shard.replay(share(11), 0)
    h.shard.replay(share(10, group_id="s"), 1)
    h.shard.replay(StreamsRecord("x", 20, "", TargetEpoch(1, 0)), 2)
    everything = {
        ("live", "consumer", "Stable", "classic"),
        ("simple", "", "Empty", "classic"),
        ("f", "share", "Empty", "share"),
        ("s", "share", "Stable", "share"),
        ("x", "streams", "Empty", "streams"),
    }
    assert listed(h) == everything
    assert listed(h, states={"stable"}) == {g for g in everything if g[2] == "Stable"}
    assert listed(h, types={"classic"}) == {g for g in everything if g[3] == "classic"}
    assert listed(h, states={"stable"}, types={"streams"}) == set()
    assert listed(h, types={"unknown"}) == set()


def test_stable_group_is_described_with_protocol_and_metadata(h):
    (member,) = h.stable_group()
    group = describe_group(h.shard, "g", 6)
    assert (group.error_code, group.group_state, group.protocol_type, group.protocol_data) == (
        0,
        "Stable",
        "consumer",
        "range",
    )
    (described,) = group.members
    assert (described.member_id, described.client_id, described.client_host) == (member, "client", "/127.0.0.1")
    assert (described.member_metadata, described.member_assignment) == (subscription("t"), member.encode())


def test_group_in_a_rebalance_is_described_without_metadata(h):
    leader, _ = h.stable_group(2)
    h.join(member_id=leader)
    group = describe_group(h.shard, "g", 6)
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("PreparingRebalance", "consumer", "")
    assert {member.member_metadata for member in group.members} == {b""}
    assert len(group.members) == 2


def test_missing_group_is_dead_and_from_v6_on_an_error(h):
    """KIP-1043."""
    old = describe_group(h.shard, "g", 5)
    assert (old.error_code, old.error_message, old.group_state) == (0, None, "Dead")
    new = describe_group(h.shard, "g", 6)
    assert (new.error_code, new.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found.")
    h.shard.replay(share(11), 0)
    assert describe_group(h.shard, "f", 6).error_message == "Group f is not a classic group."


def delete(h, group_id="g"):
    codes = []
    h.run(lambda effects: codes.append(delete_group(h.shard, group_id, effects)))
    return codes[0]


def test_only_empty_groups_are_deleted_with_all_their_offsets(h):
    assert delete(h) is ErrorCode.GROUP_ID_NOT_FOUND
    (member,) = h.stable_group()
    h.commit({("t", 0): 1, ("u", 3): 1}, member, 1)
    assert delete(h) is ErrorCode.NON_EMPTY_GROUP
    h.leave((member, None))
    assert delete(h) is ErrorCode.NONE
    assert h.shard.groups == {}
    assert h.shard.offsets.of_group("g") == {}
    assert [value for _, value in h.log[-3:]] == [None, None, None]
    again = h.reloaded()
    assert again.shard.groups == {}
    assert again.shard.offsets.group_ids() == set()


def test_deleting_a_group_forgets_pending_members_and_deadlines(h):
    pending = h.join().response.member_id
    assert delete(h) is ErrorCode.NONE
    assert len(h.timers) == 0
    on_deadline(h.shard, TimerKey("session", "g", pending), h.now, Effects())
    assert h.join(member_id=pending).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_offsets_of_a_deleted_topic_are_deleted(h):
    h.commit({("t", 0): 1}, topic_id=TOPIC_ID)
    h.commit({("t", 1): 1}, topic_id=OTHER_ID)
    h.commit({("t", 2): 1, ("u", 0): 1})
    h.shard.replay(OffsetRecord("g", "t", 3, CommittedOffset(1, 0, "", 0)), 90, producer_id=7)
    records = topic_deleted_records(h.shard, "t", TOPIC_ID)
    assert {(record.topic, record.partition) for record in records} == {("t", 0), ("t", 2), ("t", 3)}


# -- groups of other protocols ----------------------------------------------------------------------------------------


def test_share_group_lives_as_long_as_it_has_records(h):
    h.shard.replay(share(11), 0)
    h.shard.replay(share(10, name="m"), 1)
    group = h.shard.groups["f"]
    assert isinstance(group, ShareGroup)
    assert (group.group_type, group.is_empty, group.state.value) == ("share", False, "Stable")
    h.shard.replay(share(10, name="m", value=False), 2)
    assert (group.is_empty, group.state.value) == (True, "Empty")
    h.shard.replay(share(11, value=False), 3)
    assert h.shard.groups == {}
    h.shard.replay(share(11, value=False), 4)
    assert h.shard.groups == {}


def test_share_group_replaces_only_a_simple_one(h):
    """In a compacted log, offsets may precede the group's own records."""
    h.commit({("t", 0): 1}, group_id="f")
    h.shard.replay(share(11), 90)
    assert isinstance(h.shard.groups["f"], ShareGroup)
    h.stable_group()
    h.shard.replay(share(11, group_id="g"), 91)
    assert h.shard.classic("g") is not None


def test_empty_share_group_can_be_deleted(h):
    h.shard.replay(share(11), 0)
    h.shard.replay(share(10, name="m"), 1)
    assert delete(h, "f") is ErrorCode.NON_EMPTY_GROUP
    h.shard.replay(share(10, name="m", value=False), 2)
    assert delete(h, "f") is ErrorCode.NONE
    assert [key[1] for key, value in h.log if value is None] == [12, 15, 11]
    assert h.shard.groups == {}


def test_requests_to_a_share_group(h):
    """It has no committed offsets, and only members of its own protocol."""
    h.shard.replay(share(11), 0)
    h.shard.replay(share(10, name="m"), 1)
    assert h.join("f").code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert h.heartbeat("m", 1, group_id="f") is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.sync("m", 1, group_id="f").code is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.leave(("m", None), group_id="f") == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert h.commit({("t", 0): 1}, group_id="f") is ErrorCode.GROUP_ID_NOT_FOUND
    assert check_delete(h.shard.groups["f"]) is ErrorCode.GROUP_ID_NOT_FOUND


def test_share_group_is_never_taken_over(h):
    h.shard.replay(share(11), 0)
    assert h.join("f").code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert h.commit({("t", 0): 1}, group_id="f") is ErrorCode.GROUP_ID_NOT_FOUND


def test_share_groups_do_not_expire(h):
    h.shard.replay(share(11), 0)
    assert h.expire_offsets(2**60) == []


# -- giving a shard up, taking it on ----------------------------------------------------------------------------------


def test_unload_answers_parked_members(h):
    leader, follower = h.stable_group(2)
    joined = h.join(member_id=leader)
    first, second = h.enter("other"), h.enter("other")
    h.advance(6_000)
    waiting = h.sync(second.response.member_id, first.response.generation_id, group_id="other")
    h.shard.replay(share(11), 99)
    h.run(lambda effects: h.shard.unload(h.now, effects))
    assert joined.code is ErrorCode.NOT_COORDINATOR
    assert waiting.code is ErrorCode.NOT_COORDINATOR
    assert h.shard.groups == {}
    assert len(h.timers) == 0
    assert h.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_loaded_members_have_a_session(h):
    leader, follower = h.stable_group(2)
    again = h.reloaded()
    again.advance(9_999)
    assert again.heartbeat(follower, 1) is ErrorCode.NONE
    again.advance(1)
    assert again.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert leader not in again.shard.classic("g").members


def test_loaded_members_continue_without_a_rebalance(h):
    """They support only the chosen protocol, but a join with the same metadata is no change."""
    _leader, follower = h.stable_group(2)
    again = h.reloaded()
    assert again.commit({("t", 0): 5}, follower, 1) is ErrorCode.NONE
    assert again.join(member_id=follower).response.generation_id == 1


def test_loaded_group_above_the_limit_rebalances(h):
    h.log.append((share(11).key, share(11).value))
    leader, *_ = h.stable_group(3)
    h.settings = GroupSettings(max_size=2)
    again = h.reloaded()
    assert again.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert "f" in again.shard.groups


def test_tombstone_of_a_missing_group_is_ignored(h):
    h.shard.replay(GroupRecord("g", None), 0)
    h.shard.replay(share(11), 1)
    h.shard.replay(GroupRecord("f", None), 2)
    assert set(h.shard.groups) == {"f"}


def test_members_without_a_chosen_protocol_are_loaded_too(h):
    """Kafka does not write such members, but nothing forbids them."""
    member = MemberMetadata("m", None, "c", "/h", 10_000, 10_000, b"s", b"a")
    h.shard.replay(GroupRecord("g", GroupMetadata("consumer", 3, None, "m", 5, (member,))), 0)
    group = h.shard.classic("g")
    assert (group.subscribed_topics, group.metadata().members) == (None, (member,))
    assert describe_group(h.shard, "g", 6).members[0].member_metadata == b""
