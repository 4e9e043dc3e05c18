"""AlterShareGroupOffsets v0: set the start offsets of an empty share group (KIP-932).

A group that does not exist is created.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinators.share import group_states
from broker.coordinators.share.requests import serves_share_groups
from broker.handlers.describe_share_group_offsets import topic_id_of
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from coordinator.group.refused import Refused
from coordinator.share.state import ShareKey
from metadata.image import MetadataImage
from protocol.error_codes import ErrorCode
from protocol.messages.alter_share_group_offsets import (
    ALTER_SHARE_GROUP_OFFSETS,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from protocol.primitives import ZERO_UUID
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.coordinators.group.coordinator import GroupCoordinator
    from broker.coordinators.share.partitions import SharePartitions
    from broker.coordinators.share.states import AllShareStates
    from broker.metadata_cache import MetadataCache
    from config import BrokerConfig


@handles(ALTER_SHARE_GROUP_OFFSETS)
def alter_share_group_offsets(
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
    if not request.group_id:
        return refused(ErrorCode.INVALID_GROUP_ID)
    image = metadata.image

    def serve() -> Reply:
        shard = groups.at(request.group_id)
        if isinstance(shard, ErrorCode):
            return refused(shard)
        offsets = known_offsets(image, request)
        try:
            altered = groups.share_states.alter_offsets(shard, request.group_id, offsets)
        except Refused as refusal:
            return refused(refusal.code, refusal.message)

        def finish() -> Reply:
            try:
                failed = altered.result()
            except Refused as refusal:
                return refused(refusal.code, refusal.message)
            for topic_id, (_, wanted) in offsets.items():
                share_partitions.forget(request.group_id, topic_id, wanted)
            keys = (
                ShareKey(request.group_id, topic_id, partition).coordinator_key
                for topic_id, (_, wanted) in offsets.items()
                for partition in wanted
            )
            return share_states.after_commit(keys, answer(image, request, offsets, failed), refused)

        return group_states.once(altered, finish)

    return groups.with_topic(lambda: share_states.with_topic(serve))


def refused(code: ErrorCode, message: str | None = None) -> Struct:
    return ALTER_SHARE_GROUP_OFFSETS.response(error_code=code, error_message=message or group_states.words(code))


def known_offsets(image: MetadataImage, request: Struct) -> dict[bytes, tuple[str, dict[int, int]]]:
    """Return the offsets for partitions that exist; the last one of a partition that is named twice."""
    offsets: dict[bytes, tuple[str, dict[int, int]]] = {}
    for topic in request.topics:
        found = image.topic(topic.topic_name)
        if found is None:
            continue
        for each in topic.partitions:
            if each.partition_index in found.partitions:
                offsets.setdefault(found.topic_id, (found.name, {}))[1][each.partition_index] = each.start_offset
    return offsets


def answer(
    image: MetadataImage,
    request: Struct,
    offsets: dict[bytes, tuple[str, dict[int, int]]],
    failed: dict[tuple[bytes, int], Refused],
) -> Struct:
    """Return the result of each partition. Topics that do not exist come first, as in Kafka."""
    by_topic: dict[str, list[Struct]] = {}
    for topic in sorted(request.topics, key=lambda topic: topic_id_of(image, topic.topic_name) != ZERO_UUID):
        topic_id = topic_id_of(image, topic.topic_name)
        results = by_topic.setdefault(topic.topic_name, [])
        for each in topic.partitions:
            result = AlterShareGroupOffsetsResponsePartition(partition_index=each.partition_index)
            known = offsets.get(topic_id, ("", {}))[1]
            refusal = failed.get((topic_id, each.partition_index))
            if each.partition_index not in known:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                refusal = Refused(code, group_states.words(code))
            if refusal is not None:
                result.error_code, result.error_message = refusal.code, refusal.message
            results.append(result)
    return ALTER_SHARE_GROUP_OFFSETS.response(
        responses=[
            AlterShareGroupOffsetsResponseTopic(
                topic_name=name, topic_id=topic_id_of(image, name), partitions=partitions
            )
            for name, partitions in by_topic.items()
            if partitions or topic_id_of(image, name) != ZERO_UUID
        ]
    )
