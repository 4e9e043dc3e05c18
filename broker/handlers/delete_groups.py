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
from runtime.deferred import Deferred, after, gather

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

    deleted = {group_id: delete(groups, share_partitions, group_id) for group_id in dict.fromkeys(request.groups_names)}

    def finish() -> Reply:
        codes = {group_id: each.result() if isinstance(each, Deferred) else each for group_id, each in deleted.items()}
        unforced = [group_id for group_id, code in codes.items() if code is ErrorCode.NONE]
        return groups.after_commit(unforced, answer(codes), lambda code: answer(codes | dict.fromkeys(unforced, code)))

    pending = [each for each in deleted.values() if isinstance(each, Deferred)]
    return after(gather(pending), finish) if pending else finish()


def answer_of(codes: Mapping[str, ErrorCode], version: int) -> Struct:
    """Return the answer with the result of each group. As in Kafka, these errors have no message."""
    answer = DELETE_GROUPS.response(
        results=[DeletableGroupResult(group_id=group_id, error_code=code) for group_id, code in codes.items()]
    )
    for result in answer.results:
        if result.error_code == ErrorCode.GROUP_DELETION_FAILED and version < FIRST_VERSION_WITH_MESSAGES:
            result.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
    return answer


def delete(
    groups: GroupCoordinator, share_partitions: SharePartitions, group_id: str
) -> ErrorCode | Deferred[ErrorCode]:
    """Remove one group. Returns a Deferred where another broker deletes states of it first."""
    shard = groups.at(group_id)
    if isinstance(shard, ErrorCode):
        return shard
    sharing = shard.share(group_id)
    if sharing is None or not sharing.is_empty or not (topics := topics_of(sharing)):
        return delete_from_log(groups, group_id)
    try:
        deleted = groups.share_states.delete_offsets(shard, group_id, topics, keep_noted=True)
    except Refused as refusal:
        return refusal.code

    def finish() -> ErrorCode:
        for topic_id in topics:
            share_partitions.forget(group_id, topic_id)
        failed = deleted.result()
        return next(iter(failed.values())).code if failed else delete_from_log(groups, group_id)

    return finish() if deleted.done else after(deleted, finish, even_if_cancelled=True)


def delete_from_log(groups: GroupCoordinator, group_id: str) -> ErrorCode:
    shard = groups.at(group_id)
    if isinstance(shard, ErrorCode):
        return shard
    effects: GroupEffects = Effects()
    code = delete_group(shard, group_id, effects)
    return groups.run(shard, effects) if code is ErrorCode.NONE else code
