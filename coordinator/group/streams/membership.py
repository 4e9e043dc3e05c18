"""Find the group and the member of a heartbeat, or create them for a member that joins."""

from __future__ import annotations

from msgspec.structs import replace

from coordinator.clock import Now
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.state import GroupState
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
from coordinator.group.streams.draft import Draft
from coordinator.group.streams.group import StreamsGroup
from coordinator.group.streams.member import StreamsMember
from coordinator.group.streams.records import current_record, member_record, member_tombstones, target_record
from protocol.error_codes import ErrorCode
from protocol.schema import Struct


def existing_group(shard: GroupShard, group_id: str) -> StreamsGroup:
    """Return the streams group of that id. Raises Refused: GROUP_ID_NOT_FOUND."""
    group = shard.groups.get(group_id)
    if isinstance(group, StreamsGroup):
        return group
    reason = "not found" if group is None else "is not a streams group"
    raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {reason}.")


def find_group(shard: GroupShard, group_id: str, is_joining: bool, now: Now) -> Draft:
    """Return a draft for the group of a heartbeat.

    A member that joins creates a group, or replaces an empty classic one.

    Raises Refused: GROUP_ID_NOT_FOUND.
    """
    group = shard.groups.get(group_id)
    if isinstance(group, StreamsGroup):
        return Draft(shard, group, now)
    if group is None:
        if not is_joining:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {group_id} not found.")
        return Draft(shard, StreamsGroup(group_id), now)
    if is_joining and isinstance(group, ClassicGroup) and group.state is GroupState.EMPTY:
        return Draft(shard, StreamsGroup(group_id), now, [GroupRecord(group_id, None)])
    raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")


def find_member(draft: Draft, request: Struct) -> StreamsMember:
    """Return the member of a heartbeat, or a blank one if it joins.

    A static member that joins takes the place of the one that left temporarily, with its tasks and its target.

    Raises Refused: UNKNOWN_MEMBER_ID, UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID.
    """
    group, member_id, instance_id = draft.group, request.member_id, request.instance_id
    is_joining = request.member_epoch == JOINING_EPOCH
    holder = None if instance_id is None else group.static_member(instance_id)
    if instance_id is not None and not is_joining:
        return owner_of_instance(group, member_id, instance_id)
    if holder is not None:
        check_instance_is_free(holder, member_id, instance_id)
        return replace_static_member(draft, holder, member_id)
    if is_joining:
        return group.members.get(member_id) or StreamsMember(member_id)
    return member_of(group, member_id)


def owner_of_instance(group: StreamsGroup, member_id: str, instance_id: str) -> StreamsMember:
    """Return the static member, which has to be the sender. Raises Refused: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    holder = check_instance_is_known(group.static_member(instance_id), instance_id)
    check_instance_is_ours(holder, member_id, instance_id)
    return holder


def replace_static_member(draft: Draft, holder: StreamsMember, member_id: str) -> StreamsMember:
    """Let a member take the place of a static member, whose member id it may share."""
    group = draft.group
    heir = replace(holder, member_id=member_id, epoch=JOINING_EPOCH, previous_epoch=0)
    draft.replaced = holder
    draft.records += member_tombstones(group.group_id, holder.member_id)
    draft.records.append(member_record(group.group_id, heir))
    draft.records.append(target_record(group.group_id, member_id, group.target_of(holder.member_id)))
    draft.records.append(current_record(group.group_id, heir))
    return heir
