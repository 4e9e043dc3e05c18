"""Who may commit and fetch offsets of a streams group: members at their epoch, and anybody while there are none."""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.group.modern.checks import member_of
from coordinator.group.refused import Refused
from coordinator.group.streams.group import StreamsGroup
from protocol.errors import ErrorCode

#: From this version on OffsetCommit knows member epochs.
FIRST_VERSION_WITH_EPOCHS = 9


def check_commit(
    group: StreamsGroup, member_id: str, epoch: int, api_version: int, partitions: Iterable[tuple[str, int]]
) -> None:
    """Whether the sender may commit for these partitions, given by topic and index.

    A member that has not learned its new epoch yet may commit for active tasks that it has had since before.
    Raises Refused: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, UNSUPPORTED_VERSION.
    """
    if epoch < 0 and group.is_empty:
        return
    member = member_of(group, member_id)
    if api_version < FIRST_VERSION_WITH_EPOCHS:
        message = "OffsetCommit version 9 or above must be used by members using the streams group protocol"
        raise Refused(ErrorCode.UNSUPPORTED_VERSION, message)
    if epoch == member.epoch:
        return
    if epoch > member.epoch or group.topology is None:
        raise Refused(ErrorCode.STALE_MEMBER_EPOCH)
    for topic, partition in partitions:
        subtopology_id = group.topology.source_subtopologies.get(topic, "")
        since = member.assigned.active.get(subtopology_id, {}).get(partition)
        if since is None:
            since = member.revoking.active.get(subtopology_id, {}).get(partition)
        if since is None or epoch < since:
            raise Refused(ErrorCode.STALE_MEMBER_EPOCH)


def check_fetch(group: StreamsGroup, member_id: str | None, epoch: int) -> None:
    """Whether the sender may fetch; who does not say who it is always may.

    Raises Refused: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH.
    """
    if member_id is None and epoch < 0:
        return
    if epoch != member_of(group, member_id or "").epoch:
        raise Refused(ErrorCode.STALE_MEMBER_EPOCH)
