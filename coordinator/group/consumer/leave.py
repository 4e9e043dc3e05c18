"""Members that leave: for good, temporarily (static members), or because a deadline passed."""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from coordinator.clock import Now
from coordinator.group.consumer import records as stored
from coordinator.group.consumer.downgrade import can_downgrade, downgrade
from coordinator.group.consumer.draft import Draft
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import NOTHING, ConsumerMember
from coordinator.group.consumer.membership import existing_group
from coordinator.group.consumer.metadata_hash import metadata_hash
from coordinator.group.modern.checks import (
    STATIC_LEAVE_EPOCH,
    check_instance_is_known,
    check_instance_is_ours,
    member_of,
)
from coordinator.group.shard import GroupEffects, GroupShard, TimerKey
from protocol.messages.consumer_group_heartbeat import CONSUMER_GROUP_HEARTBEAT
from protocol.schema import Struct


def leave(shard: GroupShard, request: Struct, now: Now, effects: GroupEffects) -> Struct:
    """Decide a heartbeat that leaves the group. Raises Refused as `heartbeat` does."""
    group_id, instance_id = request.group_id, request.instance_id
    group = existing_group(shard, group_id)
    if instance_id is None:
        member = member_of(group, request.member_id)
    else:
        member = check_instance_is_known(group.static_member(instance_id), instance_id)
        check_instance_is_ours(member, request.member_id, instance_id)
    draft = Draft(shard, group, now)
    if request.member_epoch == STATIC_LEAVE_EPOCH and instance_id is not None:
        effects.note("group %s: static member %s (%s) has left temporarily", group_id, member.member_id, instance_id)
        draft.records.append(stored.current_record(group_id, temporarily_left(member)))
        draft.carry_out(effects)
        return CONSUMER_GROUP_HEARTBEAT.response(member_id=member.member_id, member_epoch=STATIC_LEAVE_EPOCH)
    effects.note("group %s: member %s left", group_id, member.member_id)
    remove_members(draft, [member], effects)
    return CONSUMER_GROUP_HEARTBEAT.response(member_id=request.member_id, member_epoch=request.member_epoch)


def temporarily_left(member: ConsumerMember) -> ConsumerMember:
    """Return a static member that left temporarily: it keeps its partitions, except those that it had to give up."""
    assigned = {topic_id: dict.fromkeys(partitions, 0) for topic_id, partitions in member.assigned.items()}
    return replace(member, epoch=STATIC_LEAVE_EPOCH, assigned=assigned, revoking=NOTHING)


def remove_members(draft: Draft, members: Collection[ConsumerMember], effects: GroupEffects) -> None:
    """Remove members and bump the epoch. If only members of the classic protocol are left, convert the group."""
    group = draft.group
    if not members:
        return
    if can_downgrade(draft.shard, group, members):
        downgrade(draft, members, effects, reason="the last member of the consumer protocol left")
        return
    group_id = group.group_id
    for member in members:
        draft.records += stored.member_tombstones(group_id, member.member_id)
    after = group.subscription(members)
    draft.records += [
        stored.tombstone(group_id, stored.REGEX, expression)
        for expression in group.subscribed_regexes
        if expression not in after.regexes
    ]
    draft.bump(metadata_hash(draft.shard.cluster, after.topics))
    draft.settle_if_empty(len(members), stored.target_epoch_record)
    draft.carry_out(effects)


def fence(shard: GroupShard, group: ConsumerGroup, key: TimerKey, why: str, now: Now, effects: GroupEffects) -> None:
    """Remove the member whose deadline has passed, if it still exists; retry soon if the write fails."""
    member = group.members.get(key.member_id)
    if member is not None:
        draft = Draft.at_deadline(shard, group, key, now)
        effects.note("group %s: member %s is fenced: %s", group.group_id, key.member_id, why)
        remove_members(draft, [member], effects)
