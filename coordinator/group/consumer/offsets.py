"""Who may commit and fetch offsets of a consumer group: members at their epoch, and anybody while there are none."""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.modern.checks import member_of
from coordinator.group.refused import Refused
from protocol.errors import ErrorCode

#: From this version on OffsetCommit knows member epochs.
FIRST_VERSION_WITH_EPOCHS = 9


def check_commit(
    group: ConsumerGroup,
    member_id: str,
    instance_id: str | None,
    epoch: int,
    api_version: int,
    partitions: Iterable[tuple[bytes, int]],
    *,
    is_transactional: bool = False,
) -> None:
    """Whether the sender may commit for these partitions, given by topic id and index.

    A member that has not learned its new epoch yet may commit for partitions that it has had since before.
    Raises Refused: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH (ILLEGAL_GENERATION to members of the classic protocol),
    UNSUPPORTED_VERSION.
    """
    if epoch < 0 and group.is_empty:
        return
    if is_transactional and epoch == -1 and not member_id and instance_id is None:
        return  # an old client, that does not say who it is
    member = member_of(group, member_id)
    if not (is_transactional or member.speaks_classic) and api_version < FIRST_VERSION_WITH_EPOCHS:
        message = "OffsetCommit version 9 or above must be used by members using the consumer group protocol"
        raise Refused(ErrorCode.UNSUPPORTED_VERSION, message)
    if epoch == member.epoch:
        return
    stale = ErrorCode.ILLEGAL_GENERATION if member.speaks_classic else ErrorCode.STALE_MEMBER_EPOCH
    if epoch > member.epoch:
        raise Refused(stale)
    for topic_id, partition in partitions:
        since = member.assigned.get(topic_id, {}).get(partition)
        if since is None:
            since = member.revoking.get(topic_id, {}).get(partition)
        if since is None or epoch < since:
            raise Refused(stale)


def check_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> None:
    """Whether the sender may fetch; who does not say who it is always may.

    Raises Refused: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH (ILLEGAL_GENERATION to members of the classic protocol).
    """
    if member_id is None and epoch < 0:
        return
    member = member_of(group, member_id or "")
    if epoch != member.epoch:
        raise Refused(ErrorCode.ILLEGAL_GENERATION if member.speaks_classic else ErrorCode.STALE_MEMBER_EPOCH)
