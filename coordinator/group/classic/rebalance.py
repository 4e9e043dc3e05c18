"""The rebalance of a classic group: collect joins, start a generation, wait for syncs, each with a deadline.

    Empty / Stable / CompletingRebalance --prepare--> PreparingRebalance --complete_join--> CompletingRebalance or Empty

`prepare` opens the join phase. `complete_join` ends it when all members have joined, when the longest rebalance timeout
of the members has passed, or, for the first members of a group, after the initial delay. Members that have not joined
by then are dropped, except static members. Members that do not send SyncGroup within another rebalance timeout are
dropped, too.
"""

from __future__ import annotations

from coordinator.clock import Now
from coordinator.effects import Waiter
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.member import NO_ASSIGNMENT, Member
from coordinator.group.classic.state import GroupState
from coordinator.group.records import GroupRecord
from coordinator.group.settings import LEAST_JOIN_WAIT_MS
from coordinator.group.shard import GroupEffects, GroupShard, TimerKey
from protocol.error_codes import ErrorCode
from protocol.messages.join_group import JOIN_GROUP, JoinGroupResponseMember
from protocol.messages.sync_group import SYNC_GROUP
from protocol.schema import Struct

UNKNOWN_MEMBER_ID = ""


# -- the join phase ---------------------------------------------------------------------------------------------------


def rebalance_or_complete(shard: GroupShard, group: ClassicGroup, reason: str, now: Now, effects: GroupEffects) -> None:
    """Open a join phase, or end the open one if nothing is missing."""
    if group.can_rebalance:
        prepare(shard, group, reason, now, effects)
    else:
        complete_if_all_joined(shard, group, now, effects)


def prepare(shard: GroupShard, group: ClassicGroup, reason: str, now: Now, effects: GroupEffects) -> None:
    """Open the join phase. Members that wait for their assignment have to join again."""
    if group.state is GroupState.COMPLETING_REBALANCE:
        fail_syncs(shard, group, ErrorCode.REBALANCE_IN_PROGRESS, now, effects)
    group.pending_syncs.clear()
    shard.timers.cancel(TimerKey("sync", group.group_id))

    is_first = group.state is GroupState.EMPTY
    if is_first:
        # More members are likely to join soon: wait for them instead of rebalancing for each.
        delay = shard.settings.initial_rebalance_delay_ms
        group.initial_delay = (delay, max(group.rebalance_timeout_ms - delay, 0))
        shard.timers.schedule(TimerKey("join", group.group_id), now.tick_ms + delay)
    group.move_to(GroupState.PREPARING_REBALANCE, now.wall_ms)
    effects.note("preparing to rebalance group %s with old generation %s: %s", group.group_id, group.generation, reason)
    if is_first:
        return
    if group.all_members_joined:
        complete_join(shard, group, now, effects)
    else:
        shard.timers.schedule(TimerKey("join", group.group_id), now.tick_ms + group.rebalance_timeout_ms)


def complete_if_all_joined(shard: GroupShard, group: ClassicGroup, now: Now, effects: GroupEffects) -> None:
    """End the join phase if all members have joined. The first phase of a group lasts for the whole delay."""
    is_open = group.state is GroupState.PREPARING_REBALANCE and group.previous_state is not GroupState.EMPTY
    if is_open and group.all_members_joined:
        complete_join(shard, group, now, effects)


def on_join_deadline(shard: GroupShard, group: ClassicGroup, now: Now, effects: GroupEffects) -> None:
    """End the join phase at its deadline. The first phase is extended while new members join and time is left."""
    if group.initial_delay is not None and group.new_member_added and group.initial_delay[1] != 0:
        delay, remaining = group.initial_delay
        group.new_member_added = False
        next_delay = min(shard.settings.initial_rebalance_delay_ms, remaining)
        group.initial_delay = (next_delay, max(remaining - delay, 0))
        shard.timers.schedule(TimerKey("join", group.group_id), now.tick_ms + next_delay)
    else:
        complete_join(shard, group, now, effects)


def complete_join(shard: GroupShard, group: ClassicGroup, now: Now, effects: GroupEffects) -> None:
    """End the join phase: drop dynamic members that have not joined, start the next generation, answer all joins."""
    group.initial_delay = None
    shard.timers.cancel(TimerKey("join", group.group_id))
    missing = [m for m in group.members.values() if m.awaiting_join is None and m.group_instance_id is None]
    for member in missing:
        drop_member(shard, group, member.member_id)
    if missing:
        names = ", ".join(member.member_id for member in missing)
        effects.note("group %s dropped members that have not joined: %s", group.group_id, names)

    if not group.elect_joined_leader() and group.members:
        # Only static members are left, and none has joined: wait until they join or their sessions end.
        effects.note("group %s cannot complete its rebalance: no member has joined", group.group_id)
        wait_ms = max(group.rebalance_timeout_ms, LEAST_JOIN_WAIT_MS)
        shard.timers.schedule(TimerKey("join", group.group_id), now.tick_ms + wait_ms)
        return
    if group.members:
        start_generation(shard, group, now, effects)
    else:
        become_empty(shard, group, now, effects)


def start_generation(shard: GroupShard, group: ClassicGroup, now: Now, effects: GroupEffects) -> None:
    """Answer all joins with the next generation, and wait for syncs."""
    group.generation += 1
    group.protocol_name = group.select_protocol()
    group.subscribed_topics = group.compute_subscribed_topics()
    group.move_to(GroupState.COMPLETING_REBALANCE, now.wall_ms)
    group.pending_syncs = set(group.members)
    for member in group.members.values():
        effects.reply(group.take_join(member), current_generation(group, member.member_id))
        extend_session(shard, group, member, now)
        member.is_new = False
    shard.timers.schedule(TimerKey("sync", group.group_id), now.tick_ms + group.rebalance_timeout_ms)
    effects.note("group %s has generation %s with %s members", group.group_id, group.generation, len(group.members))


def become_empty(shard: GroupShard, group: ClassicGroup, now: Now, effects: GroupEffects) -> None:
    """Store that the last member has left. The group is empty even if the write fails."""
    group.generation += 1
    group.protocol_name = None
    group.pending_syncs.clear()
    group.move_to(GroupState.EMPTY, now.wall_ms)
    group.subscribed_topics = group.compute_subscribed_topics()
    effects.note("group %s is empty, generation %s", group.group_id, group.generation)
    effects.write([GroupRecord(group.group_id, group.metadata())])


def current_generation(group: ClassicGroup, member_id: str, *, skip_assignment: bool = False) -> Struct:
    """Return the response to a member's join: the generation, and for the leader all members."""
    members = []
    if member_id == group.leader_id:
        members = [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata_for(group.protocol_name),
            )
            for member in group.members.values()
        ]
    return JOIN_GROUP.response(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id,
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=members,
    )


# -- the sync phase ---------------------------------------------------------------------------------------------------


def fail_syncs(shard: GroupShard, group: ClassicGroup, code: ErrorCode, now: Now, effects: GroupEffects) -> None:
    """Answer all parked syncs with an error; no member keeps an assignment."""
    for member in group.members.values():
        member.assignment = NO_ASSIGNMENT
        if member.awaiting_sync is not None:
            answer_sync(member, SYNC_GROUP.response(error_code=code), effects)
            extend_session(shard, group, member, now)


def answer_sync(member: Member, response: Struct, effects: GroupEffects) -> None:
    """Answer a member's parked sync, if it has one."""
    effects.reply(member.awaiting_sync, response)
    member.awaiting_sync = None


def on_sync_deadline(shard: GroupShard, group: ClassicGroup, now: Now, effects: GroupEffects) -> None:
    """Drop members that have not asked for their assignment, and rebalance the others."""
    missing = sorted(group.pending_syncs)
    for member_id in missing:
        drop_member(shard, group, member_id)
    prepare(shard, group, f"no SyncGroup in time from {', '.join(missing)}", now, effects)


# -- members ----------------------------------------------------------------------------------------------------------


def extend_session(
    shard: GroupShard, group: ClassicGroup, member: Member, now: Now, timeout_ms: int | None = None
) -> None:
    """Restart the member's session."""
    timeout_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
    shard.timers.schedule(TimerKey("session", group.group_id, member.member_id), now.tick_ms + timeout_ms)


def drop_member(shard: GroupShard, group: ClassicGroup, member_id: str) -> None:
    """Remove a member or a pending one, with its session."""
    group.remove(member_id)
    shard.timers.cancel(TimerKey("session", group.group_id, member_id))


def drop_departed_member(shard: GroupShard, group: ClassicGroup, member: Member, effects: GroupEffects) -> None:
    """Drop a member that left or timed out.

    Its parked requests get UNKNOWN_MEMBER_ID, so that a live client joins again.
    """
    code = ErrorCode.UNKNOWN_MEMBER_ID
    effects.reply(group.take_join(member), JOIN_GROUP.response(error_code=code, member_id=UNKNOWN_MEMBER_ID))
    answer_sync(member, SYNC_GROUP.response(error_code=code), effects)
    drop_member(shard, group, member.member_id)


def on_session_deadline(
    shard: GroupShard, group: ClassicGroup, member_id: str, now: Now, effects: GroupEffects
) -> None:
    """Drop the member whose session ended, or the id that no client has joined with."""
    member = group.members.get(member_id)
    if member is None:
        effects.note("group %s dropped pending member %s: it has not joined in time", group.group_id, member_id)
        group.remove(member_id)
        complete_if_nobody_missing(shard, group, now, effects)
    elif not member.satisfies_heartbeat:
        effects.note("group %s dropped member %s: its session timed out", group.group_id, member_id)
        drop_departed_member(shard, group, member, effects)
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            rebalance_or_complete(shard, group, f"the session of {member_id} timed out", now, effects)
        else:
            complete_if_nobody_missing(shard, group, now, effects)


def complete_if_nobody_missing(shard: GroupShard, group: ClassicGroup, now: Now, effects: GroupEffects) -> None:
    """End a join phase, including the first one of a group, if the dropped member was the last one missing."""
    if group.state is GroupState.PREPARING_REBALANCE and group.all_members_joined:
        complete_join(shard, group, now, effects)


def fence(group: ClassicGroup, member: Member, effects: GroupEffects) -> None:
    """Answer the parked requests of a static member that another one replaces."""
    code = ErrorCode.FENCED_INSTANCE_ID
    joined: Waiter | None = group.take_join(member)
    effects.reply(joined, JOIN_GROUP.response(error_code=code, member_id=member.member_id))
    answer_sync(member, SYNC_GROUP.response(error_code=code), effects)
