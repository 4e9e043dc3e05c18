"""The checks of commits and fetches of a consumer group's offsets."""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.group.consumer.group import ConsumerGroup
from protocol.error_codes import ErrorCode
from protocol.fast_path.single_commit import SingleCommit
from protocol.schema import Struct

#: From this version on OffsetCommit has member epochs.
FIRST_VERSION_WITH_EPOCHS = 9


def check_commit(
    group: ConsumerGroup, sender: Struct | SingleCommit, topics: Iterable[Struct], api_version: int
) -> ErrorCode:
    """Return NONE, or why the sender of a commit may not commit for the partitions of these topics.

    A member that does not know its new epoch yet may commit for partitions that it has owned since an earlier epoch.
    Errors: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH (ILLEGAL_GENERATION to members of the classic protocol),
    UNSUPPORTED_VERSION.
    """
    epoch: int = sender.generation_id_or_member_epoch
    if epoch < 0 and group.is_empty:
        return ErrorCode.NONE
    member = group.members.get(sender.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not member.uses_classic_protocol and api_version < FIRST_VERSION_WITH_EPOCHS:
        return ErrorCode.UNSUPPORTED_VERSION
    if epoch == member.epoch:
        return ErrorCode.NONE
    stale = ErrorCode.ILLEGAL_GENERATION if member.uses_classic_protocol else ErrorCode.STALE_MEMBER_EPOCH
    if epoch > member.epoch:
        return stale
    for topic in topics:
        for partition in topic.partitions:
            since = member.assigned.get(topic.topic_id, {}).get(partition.partition_index)
            if since is None:
                since = member.revoking.get(topic.topic_id, {}).get(partition.partition_index)
            if since is None or epoch < since:
                return stale
    return ErrorCode.NONE


def check_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> ErrorCode:
    """Return NONE, or why the member may not fetch offsets. A request without a member id is always allowed.

    Errors: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH (ILLEGAL_GENERATION to members of the classic protocol).
    """
    if member_id is None and epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if epoch == member.epoch:
        return ErrorCode.NONE
    return ErrorCode.ILLEGAL_GENERATION if member.uses_classic_protocol else ErrorCode.STALE_MEMBER_EPOCH
