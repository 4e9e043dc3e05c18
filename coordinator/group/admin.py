"""Requests of administrators (ListGroups, DescribeGroups, DeleteGroups), and the offsets of deleted topics."""

from __future__ import annotations

from collections.abc import Collection

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.member import Member
from coordinator.group.classic.state import GroupState
from coordinator.group.records import OffsetRecord, StoredRecord
from coordinator.group.shard import GroupEffects, GroupShard
from protocol.error_codes import ErrorCode
from protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from protocol.messages.list_groups import ListedGroup
from protocol.primitives import ZERO_UUID
from protocol.schema import Struct

#: The names of states in filters, where they are not the state in lower case: that of a streams group without its
#: topics. Kafka's tool filters by "NotReady" and so finds no group; this broker behaves alike.
FILTER_NAMES = {"NotReady": "not_ready"}
#: From this version on a missing group is an error. Before, it is described as a dead group.
FIRST_VERSION_KNOWING_MISSING_GROUPS = 6


def list_groups(shard: GroupShard, states: Collection[str], types: Collection[str]) -> list[Struct]:
    """List the shard's groups. Filters are names in lower case; an empty filter matches all groups."""
    listed = []
    for group in shard.groups.values():
        group_type, state = group.group_type, str(group.state.value)
        if (not states or FILTER_NAMES.get(state, state.lower()) in states) and (not types or group_type in types):
            listed.append(
                ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type or "",
                    group_state=state,
                    group_type=group_type,
                )
            )
    return listed


def describe_group(shard: GroupShard, group_id: str, api_version: int) -> Struct:
    """Describe a group with its members. Only a stable group has a protocol name and the members' metadata.

    Errors: GROUP_ID_NOT_FOUND (v6+) for a group that does not exist or is not a classic one.
    """
    group = shard.groups.get(group_id)
    if not isinstance(group, ClassicGroup):
        missing = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
        if api_version >= FIRST_VERSION_KNOWING_MISSING_GROUPS:
            missing.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            missing.error_message = (
                f"Group {group_id} not found." if group is None else f"Group {group_id} is not a classic group."
            )
        return missing
    is_stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=group.protocol_name or "" if is_stable else "",
        members=[describe_member(m, group.protocol_name if is_stable else None) for m in group.members.values()],
    )


def describe_member(member: Member, protocol_name: str | None) -> Struct:
    """Describe a member; without a protocol name its metadata is left out."""
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=b"" if protocol_name is None else member.metadata_for(protocol_name),
        member_assignment=member.assignment,
    )


def delete_group(shard: GroupShard, group_id: str, effects: GroupEffects) -> ErrorCode:
    """Delete a group and its offsets.

    Errors: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
    """
    group = shard.groups.get(group_id)
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if not group.is_empty:
        return ErrorCode.NON_EMPTY_GROUP
    records: list[StoredRecord] = [
        OffsetRecord(group_id, *each, None) for each in shard.offsets.topic_partitions(group_id)
    ]
    effects.write([*records, *group.tombstones()])
    return ErrorCode.NONE


def topic_deleted_records(shard: GroupShard, topic: str, topic_id: bytes) -> list[StoredRecord]:
    """Return tombstones for all offsets of a deleted topic, except offsets of another topic of the same name."""
    records: list[StoredRecord] = []
    offsets = shard.offsets
    for group_id in offsets.groups_with(topic):
        for each in offsets.topic_partitions(group_id):
            if each.topic == topic:
                committed = offsets.get(group_id, topic, each.partition)
                if committed is None or committed.topic_id in (ZERO_UUID, topic_id):
                    records.append(OffsetRecord(group_id, topic, each.partition, None))
    return records
