"""JoinGroup: become a member, or take part in the next generation.

A client without a member id gets one. From v4 on it has to send a second request with this id (KIP-394), so that
abandoned requests leave no members behind. A static member (KIP-345) replaces its earlier incarnation. From v9 on a
static leader that returns to a stable group must skip the assignment (KIP-814).
"""

from __future__ import annotations

from msgspec.structs import replace

from coordinator.clock import Now
from coordinator.group.classic import rebalance
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.join_request import Join, join_error
from coordinator.group.classic.member import Member
from coordinator.group.classic.rebalance import UNKNOWN_MEMBER_ID
from coordinator.group.classic.state import GroupState
from coordinator.group.consumer import classic_members
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.group import Group
from coordinator.group.records import GroupMetadata, GroupRecord, StoredRecord
from coordinator.group.refused import Refused
from coordinator.group.settings import NEW_MEMBER_JOIN_TIMEOUT_MS
from coordinator.group.shard import GroupEffects, GroupShard, TimerKey
from protocol.error_codes import ErrorCode
from protocol.messages.join_group import JOIN_GROUP

FIRST_VERSION_NEEDING_MEMBER_ID = 4
FIRST_VERSION_SKIPPING_ASSIGNMENT = 9
LONGEST_STRING_BYTES = 32_767


def join_group(shard: GroupShard, join: Join, now: Now, effects: GroupEffects) -> None:
    """Decide a join that passed `check_join`. The response is in the effects, or follows when the join phase ends.

    Errors: UNKNOWN_MEMBER_ID, GROUP_MAX_SIZE_REACHED, MEMBER_ID_REQUIRED (the first of two requests),
    INCONSISTENT_GROUP_PROTOCOL (also for a live group of another type), FENCED_INSTANCE_ID.
    """
    group = shard.groups.get(join.group_id)
    if isinstance(group, ClassicGroup):
        join_classic(shard, group, join, now, effects)
    elif isinstance(group, ConsumerGroup) and not group.is_empty:
        try:
            classic_members.join(shard, group, join, now, effects)
        except Refused as refusal:
            effects.reply(join.waiter, join_error(refusal.code, UNKNOWN_MEMBER_ID))
    elif group is not None and not group.may_become_classic:
        effects.reply(join.waiter, join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID))
    elif join.member_id != UNKNOWN_MEMBER_ID:
        effects.reply(join.waiter, join_error(ErrorCode.UNKNOWN_MEMBER_ID, join.member_id))
    else:
        create_and_join(shard, group, join, now, effects)


def create_and_join(
    shard: GroupShard,
    replaced: Group | None,
    join: Join,
    now: Now,
    effects: GroupEffects,
) -> None:
    """Write a new group, which replaces an empty one of another type, and then continue with the join."""
    records: list[StoredRecord] = [] if replaced is None else [*replaced.tombstones()]
    records.append(GroupRecord(join.group_id, GroupMetadata("", 0, None, None, now.wall_ms)))

    def go_on() -> None:
        group = shard.classic(join.group_id)
        assert group is not None
        join_classic(shard, group, join, now, effects)

    def fail(code: ErrorCode) -> None:
        effects.reply(join.waiter, join_error(code, UNKNOWN_MEMBER_ID))

    effects.write(records, go_on, fail)


def join_classic(shard: GroupShard, group: ClassicGroup, join: Join, now: Now, effects: GroupEffects) -> None:
    """Decide a join of an existing group."""
    if not has_room(shard, group, join.member_id):
        rebalance.drop_member(shard, group, join.member_id)
        effects.reply(join.waiter, join_error(ErrorCode.GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID))
    elif not group.supports(join.protocol_type, join.protocol_names):
        effects.reply(join.waiter, join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, join.member_id))
    elif join.member_id == UNKNOWN_MEMBER_ID:
        join_without_id(shard, group, join, now, effects)
    elif join.member_id in group.pending_joins:
        if join.group_instance_id is None:
            add_member(shard, group, join, join.member_id, now, effects)
        else:  # the id was issued to a client without an instance id; Kafka does not expect this either
            effects.reply(join.waiter, join_error(ErrorCode.UNKNOWN_SERVER_ERROR, UNKNOWN_MEMBER_ID))
    else:
        join_again(shard, group, join, now, effects)


def has_room(shard: GroupShard, group: ClassicGroup, member_id: str) -> bool:
    """Return whether the group has room for the member, or already has the member.

    During a join phase only members that have joined count: if group.max.size was lowered, the last ones to join are
    rejected.
    """
    max_size = shard.settings.max_size
    if group.state is GroupState.EMPTY:
        return True
    member = group.members.get(member_id)
    if group.state is GroupState.PREPARING_REBALANCE:
        return (member is not None and member.awaiting_join is not None) or group.awaiting_join_count < max_size
    return member is not None or len(group.members) < max_size


# -- members without an id --------------------------------------------------------------------------------------------


def join_without_id(shard: GroupShard, group: ClassicGroup, join: Join, now: Now, effects: GroupEffects) -> None:
    """Give a new member an id. A static member that was here before replaces its earlier incarnation."""
    name = join.client_id if join.group_instance_id is None else join.group_instance_id
    new_id = f"{name}-{join.fresh_uuid}"
    if len(new_id.encode()) > LONGEST_STRING_BYTES:  # too long for a response
        effects.reply(join.waiter, join_error(ErrorCode.UNKNOWN_SERVER_ERROR, UNKNOWN_MEMBER_ID))
        return
    if join.group_instance_id is not None:
        old_id = group.static_members.get(join.group_instance_id)
        if old_id is None:
            add_member(shard, group, join, new_id, now, effects)
        else:
            replace_static_member(shard, group, join, old_id, new_id, now, effects)
        return
    if join.waiter.api_version < FIRST_VERSION_NEEDING_MEMBER_ID:
        add_member(shard, group, join, new_id, now, effects)
        return
    group.pending_joins[new_id] = None
    shard.timers.schedule(TimerKey("session", group.group_id, new_id), now.tick_ms + join.session_timeout_ms)
    effects.reply(join.waiter, join_error(ErrorCode.MEMBER_ID_REQUIRED, new_id))


def add_member(
    shard: GroupShard, group: ClassicGroup, join: Join, member_id: str, now: Now, effects: GroupEffects
) -> None:
    """Add a new member and rebalance."""
    member = Member(
        member_id,
        join.group_instance_id,
        join.client_id,
        join.client_host,
        join.rebalance_timeout_ms,
        join.session_timeout_ms,
        join.protocols,
        is_new=True,
    )
    if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
        group.new_member_added = True
    group.add(member, join.waiter, join.protocol_type)
    rebalance.extend_session(shard, group, member, now, NEW_MEMBER_JOIN_TIMEOUT_MS)
    reason = f"new member {member_id}, group instance id {join.group_instance_id}; client reason: {join.reason}"
    rebalance.rebalance_or_complete(shard, group, reason, now, effects)


def replace_static_member(
    shard: GroupShard, group: ClassicGroup, join: Join, old_id: str, new_id: str, now: Now, effects: GroupEffects
) -> None:
    """Replace a static member by one with a new id. A stable group stays stable unless the chosen protocol changes."""
    old = group.members[old_id]
    if group.state is GroupState.STABLE and group.select_protocol({old_id: join.protocols}) == group.protocol_name:
        store_replacement(shard, group, join, old, new_id, now, effects)
        return
    rebalance.fence(group, old, effects)
    shard.timers.cancel(TimerKey("session", group.group_id, old_id))
    member = group.replace_static(old_id, new_id)
    rebalance.extend_session(shard, group, member, now)
    group.update(member, join.protocols, join.rebalance_timeout_ms, join.session_timeout_ms)
    group.park_join(member, join.waiter)
    reason = f"static member {new_id} came back; client reason: {join.reason}"
    # While syncs are collected, the leader may already assign partitions to the old id: a new generation is needed.
    rebalance.rebalance_or_complete(shard, group, reason, now, effects)


def store_replacement(
    shard: GroupShard, group: ClassicGroup, join: Join, old: Member, new_id: str, now: Now, effects: GroupEffects
) -> None:
    """Store a stable group's static member under its new id, with its assignment."""
    old_leader = group.leader_id
    old_id = old.member_id
    metadata = group.metadata()
    members = tuple(
        replace(
            stored,
            member_id=new_id,
            rebalance_timeout_ms=join.rebalance_timeout_ms,
            session_timeout_ms=join.session_timeout_ms,
            subscription=dict(join.protocols)[str(group.protocol_name)],
        )
        if stored.member_id == old_id
        else stored
        for stored in metadata.members
    )
    metadata = replace(metadata, members=members, leader_id=new_id if old_leader == old_id else old_leader)
    read = group.subscribed_topics

    def answer() -> None:
        # those of the generation: the member owns partitions of these topics, whatever it subscribes to now
        group.subscribed_topics = read
        shard.timers.cancel(TimerKey("session", group.group_id, old_id))
        member = group.members[new_id]
        group.update(member, join.protocols, join.rebalance_timeout_ms, join.session_timeout_ms)
        rebalance.extend_session(shard, group, member, now)
        skips = join.waiter.api_version >= FIRST_VERSION_SKIPPING_ASSIGNMENT
        response = rebalance.current_generation(group, new_id, skip_assignment=group.leader_id == new_id)
        if not skips:
            # If this client knew that it is the leader, it would compute an assignment that a stable group ignores.
            response.leader, response.members, response.skip_assignment = old_leader, [], False
        effects.reply(join.waiter, response)

    def fail(code: ErrorCode) -> None:
        response = JOIN_GROUP.response(
            error_code=code,
            member_id=UNKNOWN_MEMBER_ID,
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=old_leader,
        )
        effects.reply(join.waiter, response)

    effects.write([GroupRecord(group.group_id, metadata)], answer, fail)


# -- members with an id -----------------------------------------------------------------------------------------------


def join_again(shard: GroupShard, group: ClassicGroup, join: Join, now: Now, effects: GroupEffects) -> None:
    """Decide the join of a known member: for the next generation, or because it missed the last response."""
    code = group.check_member(join.member_id, join.group_instance_id)
    if code is not ErrorCode.NONE:
        effects.reply(join.waiter, join_error(code, join.member_id))
        return
    member = group.members[join.member_id]
    is_unchanged = member.protocols == join.protocols
    if group.state is GroupState.COMPLETING_REBALANCE and is_unchanged:
        effects.reply(join.waiter, rebalance.current_generation(group, join.member_id))
        return
    # A leader may rebalance at any time: it may know of changes that its metadata does not show, such as new
    # partitions.
    if group.state is GroupState.STABLE and is_unchanged and join.member_id != group.leader_id:
        effects.reply(join.waiter, rebalance.current_generation(group, join.member_id))
        return
    group.update(member, join.protocols, join.rebalance_timeout_ms, join.session_timeout_ms)
    group.park_join(member, join.waiter)
    reason = f"member {join.member_id} joins in state {group.state.value}; client reason: {join.reason}"
    rebalance.rebalance_or_complete(shard, group, reason, now, effects)
