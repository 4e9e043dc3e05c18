"""Find the group and the member of a heartbeat, or create them for a member that joins."""

from __future__ import annotations

from msgspec.structs import replace

from coordinator.clock import Now
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.state import GroupState
from coordinator.group.consumer.draft import Draft
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import ConsumerMember
from coordinator.group.consumer.records import current_record, member_record, member_tombstones, target_record
from coordinator.group.consumer.upgrade import upgrade
from coordinator.group.modern.checks import (
    JOINING_EPOCH,
    check_instance_is_free,
    check_instance_is_known,
    check_instance_is_ours,
    member_of,
)
from coordinator.group.records import GroupRecord
from coordinator.group.refused import Refused
from coordinator.group.shard import GroupShard
from protocol.error_codes import ErrorCode


def existing_group(shard: GroupShard, group_id: str) -> ConsumerGroup:
    """Return the consumer group of that id. Raises Refused: GROUP_ID_NOT_FOUND."""
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if group is None:
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    raise not_a_consumer_group(group_id)


def not_a_consumer_group(group_id: str) -> Refused:
    return Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")


def find_group(shard: GroupShard, group_id: str, is_joining: bool, now: Now) -> Draft:
    """Return a draft for the group of a heartbeat.

    A member that joins creates a new group, replaces an empty classic one, or converts a classic one with members (see
    upgrade.py). Raises Refused: GROUP_ID_NOT_FOUND.
    """
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return Draft(shard, group, now)
    if group is None:
        if not is_joining:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        return Draft(shard, ConsumerGroup(group_id), now)
    if not is_joining or not isinstance(group, ClassicGroup):
        raise not_a_consumer_group(group_id)
    if group.state is GroupState.EMPTY:
        return Draft(shard, ConsumerGroup(group_id), now, [GroupRecord(group_id, None)])
    return upgrade(shard, group, now)


def subscribe_dynamic(group: ConsumerGroup, member_id: str, is_joining: bool) -> ConsumerMember:
    """Return the member, or a blank one if it joins. Raises Refused: UNKNOWN_MEMBER_ID."""
    if is_joining:
        return group.members.get(member_id) or ConsumerMember(member_id)
    return member_of(group, member_id)


def subscribe_static(
    draft: Draft, member_id: str, instance_id: str, is_joining: bool, *, uses_classic_protocol: bool = False
) -> ConsumerMember:
    """Return the member of an instance id. A member that joins replaces one that left temporarily, and keeps its state.

    A member of the classic protocol can replace another one, and be replaced, at any time. Raises Refused:
    UNRELEASED_INSTANCE_ID, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    group = draft.group
    holder = group.static_member(instance_id)
    if not is_joining:
        holder = check_instance_is_known(holder, instance_id)
        check_instance_is_ours(holder, member_id, instance_id)
        return holder
    if holder is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    if not uses_classic_protocol and not holder.uses_classic_protocol:
        check_instance_is_free(holder, member_id, instance_id)
    heir = replace(holder, member_id=member_id, epoch=JOINING_EPOCH, previous_epoch=0)
    draft.records += member_tombstones(group.group_id, holder.member_id)
    draft.records.append(member_record(group.group_id, heir))
    draft.records.append(target_record(group.group_id, member_id, group.target_of(holder.member_id)))
    draft.records.append(current_record(group.group_id, heir))
    return heir
