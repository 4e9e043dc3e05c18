"""DeleteGroups v0-v3: remove groups without members, with their offsets (KIP-229).

Versions: v3 error messages, and GROUP_DELETION_FAILED (KIP-1331). For a share group, the share coordinator deletes its
states first (KIP-932).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from broker.coordinators.share.partitions import SharePartitions  # in a thread: the service is created on the loop
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from coordinator.effects import Effects
from coordinator.group.admin import delete_group
from coordinator.group.refused import Refused
from coordinator.group.shard import GroupEffects
from coordinator.group.share.offsets import topics_of
from protocol.error_codes import ErrorCode
from protocol.messages.delete_groups import DELETE_GROUPS, DeletableGroupResult
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.coordinators.group.coordinator import GroupCoordinator


#: From this version on clients know GROUP_DELETION_FAILED.
FIRST_VERSION_WITH_MESSAGES = 3


@handles(DELETE_GROUPS)
def delete_groups(
    ctx: RequestContext, request: Struct, *, groups: GroupCoordinator, share_partitions: SharePartitions
) -> Reply:
    def answer(codes: Mapping[str, ErrorCode]) -> Struct:
        return answer_of(codes, ctx.api_version)

    codes = {group_id: delete(groups, share_partitions, group_id) for group_id in dict.fromkeys(request.groups_names)}
    unforced = [group_id for group_id, code in codes.items() if code is ErrorCode.NONE]
    return groups.after_commit(unforced, answer(codes), lambda code: answer(codes | dict.fromkeys(unforced, code)))


def answer_of(codes: Mapping[str, ErrorCode], version: int) -> Struct:
    """Return the answer with the result of each group. As in Kafka, these errors have no message."""
    answer = DELETE_GROUPS.response(
        results=[DeletableGroupResult(group_id=group_id, error_code=code) for group_id, code in codes.items()]
    )
    for result in answer.results:
        if result.error_code == ErrorCode.GROUP_DELETION_FAILED and version < FIRST_VERSION_WITH_MESSAGES:
            result.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
    return answer


def delete(groups: GroupCoordinator, share_partitions: SharePartitions, group_id: str) -> ErrorCode:
    """Remove one group."""
    shard = groups.at(group_id)
    if isinstance(shard, ErrorCode):
        return shard
    sharing = shard.share(group_id)
    if sharing is not None and sharing.is_empty and (topics := topics_of(sharing)):
        try:
            failed = groups.share_states.delete_offsets(shard, group_id, topics, keep_noted=True)
        except Refused as refusal:
            return refusal.code
        for topic_id in topics:
            share_partitions.forget(group_id, topic_id)
        if failed:
            return next(iter(failed.values())).code
    effects: GroupEffects = Effects()
    code = delete_group(shard, group_id, effects)
    return groups.run(shard, effects) if code is ErrorCode.NONE else code
