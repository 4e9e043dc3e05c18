"""The check of commits to a classic group."""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.state import GroupState
from protocol.error_codes import ErrorCode
from protocol.fast_path.single_commit import SingleCommit
from protocol.schema import Struct


def check_commit(
    group: ClassicGroup, sender: Struct | SingleCommit, topics: Sequence[Struct], api_version: int
) -> ErrorCode:
    """Return NONE, or why the sender of a commit may not commit.

    Errors: ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, REBALANCE_IN_PROGRESS.
    """
    generation: int = sender.generation_id_or_member_epoch
    member_id: str = sender.member_id
    group_instance_id: str | None = sender.group_instance_id
    if generation < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if generation >= 0 or member_id or group_instance_id is not None:
        code = group.check_member(member_id, group_instance_id)
        if code is not ErrorCode.NONE:
            return code
        if generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
    else:
        return ErrorCode.UNKNOWN_MEMBER_ID
    # The member knows the new generation but not yet its assignment: it has read partitions of the generation before.
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is GroupState.COMPLETING_REBALANCE else ErrorCode.NONE
