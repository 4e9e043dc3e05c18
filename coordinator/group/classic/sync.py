"""SyncGroup: the leader sends the assignment of all members, and each member gets its own.

The generation is stable once the leader's assignment is in the log. Until then members wait.
"""

from __future__ import annotations

from coordinator.clock import Now
from coordinator.effects import Waiter
from coordinator.group.classic import rebalance
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.state import GroupState
from coordinator.group.consumer import classic_members
from coordinator.group.records import GroupRecord
from coordinator.group.refused import Refused
from coordinator.group.shard import GroupEffects, GroupShard, TimerKey
from protocol.error_codes import ErrorCode
from protocol.messages.sync_group import SYNC_GROUP
from protocol.schema import Struct


def sync_error(code: ErrorCode) -> Struct:
    """Return the response to a sync that fails."""
    return SYNC_GROUP.response(error_code=code)


def sync_group(shard: GroupShard, request: Struct, waiter: Waiter, now: Now, effects: GroupEffects) -> None:
    """Decide a sync. A member's sync is parked until the leader sends the assignment.

    Errors: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL (v5+),
    REBALANCE_IN_PROGRESS.
    """
    consumers = shard.consumer(request.group_id)
    if consumers is not None:
        try:
            classic_members.sync(shard, consumers, request, waiter, now, effects)
        except Refused as refusal:
            effects.reply(waiter, sync_error(refusal.code))
        return
    group = shard.classic(request.group_id)
    code = ErrorCode.UNKNOWN_MEMBER_ID if group is None else check_sync(group, request)
    if group is None or code is not ErrorCode.NONE:
        effects.reply(waiter, sync_error(code))
        return
    member = group.members[request.member_id]
    group.pending_syncs.discard(member.member_id)
    if not group.pending_syncs:
        shard.timers.cancel(TimerKey("sync", group.group_id))
    if group.state is GroupState.STABLE:
        effects.reply(waiter, assignment(group, member.assignment))
        return
    member.awaiting_sync = waiter
    if member.member_id == group.leader_id:
        assignments = {given.member_id: given.assignment for given in request.assignments}
        store_assignments(shard, group, assignments, now, effects)


def check_sync(group: ClassicGroup, request: Struct) -> ErrorCode:
    """Return NONE, or why the request is not from a member of this generation or cannot be answered now."""
    code = group.check_member(request.member_id, request.group_instance_id)
    if code is not ErrorCode.NONE:
        return code
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if differs(request.protocol_type, group.protocol_type) or differs(request.protocol_name, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def differs(given: str | None, known: str | None) -> bool:
    """Return whether the client names a protocol other than the group's; before v5 it names none."""
    return given is not None and known is not None and given != known


def store_assignments(
    shard: GroupShard, group: ClassicGroup, assignments: dict[str, bytes], now: Now, effects: GroupEffects
) -> None:
    """Write the generation with its assignments. Then the group is stable, and all parked syncs are answered."""

    def answer_all() -> None:
        for member in group.members.values():
            if member.awaiting_sync is not None:
                rebalance.answer_sync(member, assignment(group, member.assignment), effects)
                rebalance.extend_session(shard, group, member, now)

    def fail(code: ErrorCode) -> None:
        rebalance.fail_syncs(shard, group, code, now, effects)
        reason = f"the assignment could not be stored: {code.name}"
        rebalance.rebalance_or_complete(shard, group, reason, now, effects)

    effects.write([GroupRecord(group.group_id, group.metadata(assignments))], answer_all, fail)


def assignment(group: ClassicGroup, assigned: bytes) -> Struct:
    """Return the response with a member's assignment."""
    return SYNC_GROUP.response(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=assigned
    )
