"""Checks of a ShareGroupHeartbeat: first without its group, then against its member.

A request that fails a check raises Refused. The messages are Kafka's, because clients show them to people.
"""

from __future__ import annotations

from coordinator.group.modern.checks import ABANDON, JOINING_EPOCH, LEAVING_EPOCH, bad_request, check_not_blank
from coordinator.group.refused import Refused
from coordinator.group.shard import GroupShard
from coordinator.group.share.group import ShareGroup
from coordinator.group.share.member import ShareMember
from protocol.error_codes import ErrorCode
from protocol.schema import Struct

#: The length of a member id: clients generate it.
LONGEST_MEMBER_ID = 36


def check_request(request: Struct) -> None:
    """Check the fields of a request. Raises Refused: INVALID_REQUEST."""
    if not request.member_id or len(request.member_id) > LONGEST_MEMBER_ID:
        raise Refused(ErrorCode.INVALID_REQUEST)
    check_not_blank(request.member_id, "MemberId")
    check_not_blank(request.group_id, "GroupId")
    check_not_blank(request.rack_id, "RackId")
    if request.member_epoch == JOINING_EPOCH and not request.subscribed_topic_names:
        raise bad_request("SubscribedTopicNames must be set in first request.")
    if request.member_epoch < LEAVING_EPOCH:
        raise bad_request("MemberEpoch is invalid.")


def existing_group(shard: GroupShard, group_id: str) -> ShareGroup:
    """Return the share group of that id. Raises Refused: GROUP_ID_NOT_FOUND."""
    group = shard.groups.get(group_id)
    if isinstance(group, ShareGroup):
        return group
    if group is None:
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    raise not_a_share_group(group_id)


def not_a_share_group(group_id: str) -> Refused:
    return Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")


def find_group(shard: GroupShard, group_id: str, is_joining: bool) -> ShareGroup:
    """Return the group, or a new one for a member that joins. Raises Refused: GROUP_ID_NOT_FOUND."""
    group = shard.groups.get(group_id)
    if isinstance(group, ShareGroup):
        return group
    if group is not None:
        raise not_a_share_group(group_id)
    if not is_joining:
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {group_id} not found.")
    return ShareGroup(group_id)


def check_room(group: ShareGroup, member_id: str, max_size: int) -> None:
    """Raise Refused GROUP_MAX_SIZE_REACHED if the group has no room for the member."""
    if len(group.members) >= max_size and member_id not in group.members:
        message = f"The share group has reached its maximum capacity of {max_size} members."
        raise Refused(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def check_epoch(member: ShareMember, epoch: int) -> None:
    """Raise Refused FENCED_MEMBER_EPOCH unless the epoch is the member's or the one before.

    The epoch before is accepted, because the last response may be lost. A member may always join again.
    """
    if epoch in (JOINING_EPOCH, member.epoch, member.previous_epoch):
        return
    if epoch > member.epoch:
        known = f"a greater member epoch ({epoch}) than the one known by the group coordinator ({member.epoch})."
    else:
        known = (
            f"a smaller member epoch ({epoch}) than the one known by the group coordinator ({member.epoch}), and it"
            f" does not match the previous member epoch ({member.previous_epoch})."
        )
    raise Refused(ErrorCode.FENCED_MEMBER_EPOCH, f"The share group member has {known} {ABANDON}")
