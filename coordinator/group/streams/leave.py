"""Members of a streams group that leave, for good or temporarily (static members), or whose deadlines pass."""

from __future__ import annotations

from msgspec.structs import replace

from coordinator.clock import Now
from coordinator.group.modern.checks import STATIC_LEAVE_EPOCH, member_of
from coordinator.group.shard import GroupEffects, GroupShard, TimerKey
from coordinator.group.streams.draft import Draft
from coordinator.group.streams.group import StreamsGroup
from coordinator.group.streams.member import StreamsMember
from coordinator.group.streams.membership import existing_group, owner_of_instance
from coordinator.group.streams.records import current_record, member_tombstones, target_epoch_record
from coordinator.group.streams.tasks import OWNS_NOTHING, OwnedTasks
from protocol.messages.streams_group_heartbeat import STREAMS_GROUP_HEARTBEAT
from protocol.schema import Struct


def leave(shard: GroupShard, request: Struct, now: Now, effects: GroupEffects) -> Struct:
    """Decide a heartbeat that leaves the group, and may shut down the application.

    Raises Refused as `heartbeat` does.
    """
    group = existing_group(shard, request.group_id)
    member_id, instance_id = request.member_id, request.instance_id
    if request.shutdown_application and group.members:
        # As in Kafka, even for a request that is refused: a fenced member may have reason to shut down.
        group.soft.shutdown_by = group.soft.shutdown_by or member_id
    member = member_of(group, member_id) if instance_id is None else owner_of_instance(group, member_id, instance_id)
    draft = Draft(shard, group, now)
    if request.member_epoch == STATIC_LEAVE_EPOCH and instance_id is not None:
        effects.note("group %s: static member %s (%s) has left temporarily", group.group_id, member_id, instance_id)
        draft.records.append(current_record(group.group_id, temporarily_left(member)))
        draft.carry_out(effects)
    else:
        effects.note("group %s: member %s left", group.group_id, member_id)
        remove_member(draft, member, effects)
    return STREAMS_GROUP_HEARTBEAT.response(member_id=member_id, member_epoch=request.member_epoch, status=[])


def temporarily_left(member: StreamsMember) -> StreamsMember:
    """Return a static member that left temporarily: it keeps its tasks, except those that it had to give up."""
    active = {each: dict.fromkeys(partitions, 0) for each, partitions in member.assigned.active.items()}
    assigned = OwnedTasks(active, member.assigned.standby, member.assigned.warmup)
    return replace(member, epoch=STATIC_LEAVE_EPOCH, assigned=assigned, revoking=OWNS_NOTHING)


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
