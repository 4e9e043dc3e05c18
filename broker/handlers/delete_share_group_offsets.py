"""DeleteShareGroupOffsets v0: remove topics from an empty share group (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinators.share import group_states
from broker.coordinators.share.requests import serves_share_groups
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from coordinator.group.refused import Refused
from coordinator.group.share.checks import existing_group
from coordinator.group.share.offsets import check_empty, topics_of
from coordinator.share.state import ShareKey
from protocol.error_codes import ErrorCode
from protocol.messages.delete_share_group_offsets import (
    DELETE_SHARE_GROUP_OFFSETS,
    DeleteShareGroupOffsetsResponseTopic,
)
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.coordinators.group.coordinator import GroupCoordinator
    from broker.coordinators.share.partitions import SharePartitions
    from broker.coordinators.share.states import AllShareStates
    from broker.metadata_cache import MetadataCache
    from config import BrokerConfig


@handles(DELETE_SHARE_GROUP_OFFSETS)
def delete_share_group_offsets(
    ctx: RequestContext,
    request: Struct,
    *,
    metadata: MetadataCache,
    config: BrokerConfig,
    groups: GroupCoordinator,
    share_states: AllShareStates,
    share_partitions: SharePartitions,
) -> Reply:
    if not serves_share_groups(metadata, config):
        return refused(ErrorCode.UNSUPPORTED_VERSION)
    group_id = request.group_id
    if not group_id:
        return refused(ErrorCode.INVALID_GROUP_ID)
    image = metadata.image
    shard = groups.at(group_id)
    if isinstance(shard, ErrorCode):
        return refused(shard)
    errors: list[Struct] = []
    known: dict[bytes, str] = {}
    try:
        group = existing_group(shard, group_id)
        check_empty(group)
        names = topics_of(group)
        for name in dict.fromkeys(topic.topic_name for topic in request.topics):
            topic = image.topic(name)
            if topic is None:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                errors.append(result_of(name, code, group_states.words(code)))
            elif topic.topic_id not in names:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                errors.append(result_of(name, code, "There is no offset information to delete."))
            else:
                known[topic.topic_id] = name
        if not known:
            return DELETE_SHARE_GROUP_OFFSETS.response(responses=errors)
        deleted = groups.share_states.delete_offsets(shard, group_id, known)
    except Refused as refusal:
        return refused(refusal.code, refusal.message)

    def finish() -> Reply:
        results: list[Struct] = []
        try:
            failed = deleted.result()
        except Refused as refusal:
            return refused(refusal.code, refusal.message)
        for topic_id, name in known.items():
            result = DeleteShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic_id)
            if topic_id in failed:
                result.error_code, result.error_message = failed[topic_id].code, failed[topic_id].message
            results.append(result)
            share_partitions.forget(group_id, topic_id)
        response = DELETE_SHARE_GROUP_OFFSETS.response(responses=[*results, *errors])
        keys = (
            ShareKey(group_id, topic_id, partition).coordinator_key
            for topic_id in known
            for partition in partitions[topic_id]
        )
        return share_states.after_commit(keys, response, refused)

    partitions = {topic_id: list(image.topics_by_name[name].partitions) for topic_id, name in known.items()}
    return group_states.once(deleted, finish)


def refused(code: ErrorCode, message: str | None = None) -> Struct:
    return DELETE_SHARE_GROUP_OFFSETS.response(error_code=code, error_message=message or group_states.words(code))


def result_of(name: str, code: ErrorCode, message: str) -> Struct:
    return DeleteShareGroupOffsetsResponseTopic(topic_name=name, error_code=code, error_message=message)
