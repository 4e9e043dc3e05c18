"""Members of a streams group that leave, or whose deadlines pass."""

from __future__ import annotations

from coordinator.clock import Now
from coordinator.group.modern.checks import member_of
from coordinator.group.refused import Refused
from coordinator.group.shard import GroupEffects, GroupShard, TimerKey
from coordinator.group.streams.draft import Draft
from coordinator.group.streams.group import StreamsGroup, VolatileState
from coordinator.group.streams.member import StreamsMember
from coordinator.group.streams.records import member_tombstones, target_epoch_record
from protocol.error_codes import ErrorCode
from protocol.messages.streams_group_heartbeat import STREAMS_GROUP_HEARTBEAT
from protocol.schema import Struct


def existing_group(shard: GroupShard, group_id: str) -> StreamsGroup:
    """Return the streams group of that id. Raises Refused: GROUP_ID_NOT_FOUND."""
    group = shard.groups.get(group_id)
    if isinstance(group, StreamsGroup):
        return group
    reason = "not found" if group is None else "is not a streams group"
    raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {reason}.")


def leave(shard: GroupShard, request: Struct, now: Now, effects: GroupEffects) -> Struct:
    """Decide a heartbeat that leaves the group, and may shut down the application.

    Raises Refused as `heartbeat` does.
    """
    group = existing_group(shard, request.group_id)
    member = member_of(group, request.member_id)
    draft = Draft(shard, group, now)
    if request.shutdown_application:

        def shut_down(soft: VolatileState) -> None:
            if group.members:  # a shutdown concerns the other members
                soft.shutdown_by = soft.shutdown_by or member.member_id

        draft.remember(shut_down)
    effects.note("group %s: member %s left", group.group_id, member.member_id)
    remove_member(draft, member, effects)
    return STREAMS_GROUP_HEARTBEAT.response(member_id=request.member_id, member_epoch=request.member_epoch, status=[])


def remove_member(draft: Draft, member: StreamsMember, effects: GroupEffects) -> None:
    """Remove a member and bump the epoch."""
    group = draft.group
    draft.records += member_tombstones(group.group_id, member.member_id)
    draft.bump(group.metadata_hash, group.validated_topology_epoch, group.assignment_configs)
    draft.settle_if_empty(1, target_epoch_record)
    draft.carry_out(effects)


def fence(shard: GroupShard, group: StreamsGroup, key: TimerKey, why: str, now: Now, effects: GroupEffects) -> None:
    """Remove the member whose deadline has passed, if it still exists; retry soon if the write fails."""
    member = group.members.get(key.member_id)
    if member is not None:
        draft = Draft.at_deadline(shard, group, key, now)
        effects.note("group %s: member %s is fenced: %s", group.group_id, key.member_id, why)
        remove_member(draft, member, effects)
