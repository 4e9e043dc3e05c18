"""The checks of commits and fetches of a streams group's offsets."""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.group.streams.group import StreamsGroup
from protocol.error_codes import ErrorCode
from protocol.fast_path.single_commit import SingleCommit
from protocol.schema import Struct

#: From this version on OffsetCommit has member epochs.
FIRST_VERSION_WITH_EPOCHS = 9


def check_commit(
    group: StreamsGroup, sender: Struct | SingleCommit, topics: Iterable[Struct], api_version: int
) -> ErrorCode:
    """Return NONE, or why the sender of a commit may not commit for the partitions of these topics.

    A member that does not know its new epoch yet may commit for active tasks that it has owned since an earlier epoch.
    Errors: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, UNSUPPORTED_VERSION.
    """
    epoch: int = sender.generation_id_or_member_epoch
    if epoch < 0 and group.is_empty:
        return ErrorCode.NONE
    member = group.members.get(sender.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if api_version < FIRST_VERSION_WITH_EPOCHS:
        return ErrorCode.UNSUPPORTED_VERSION
    if epoch == member.epoch:
        return ErrorCode.NONE
    if epoch > member.epoch or group.topology is None:
        return ErrorCode.STALE_MEMBER_EPOCH
    for topic in topics:
        subtopology_id = group.topology.source_subtopologies.get(topic.name, "")
        for partition in topic.partitions:
            since = member.assigned.active.get(subtopology_id, {}).get(partition.partition_index)
            if since is None:
                since = member.revoking.active.get(subtopology_id, {}).get(partition.partition_index)
            if since is None or epoch < since:
                return ErrorCode.STALE_MEMBER_EPOCH
    return ErrorCode.NONE


def check_fetch(group: StreamsGroup, member_id: str | None, epoch: int) -> ErrorCode:
    """Return NONE, or why the member may not fetch offsets. A request without a member id is always allowed.

    Errors: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH.
    """
    if member_id is None and epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if epoch == member.epoch:
        return ErrorCode.NONE
    return ErrorCode.STALE_MEMBER_EPOCH
