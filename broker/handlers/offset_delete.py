"""OffsetDelete v0: delete offsets of a group (KIP-496).

Refused for topics that a member of the group reads, and for topics and partitions that do not exist. If the whole group
has an error, the answer has no topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from coordinator.effects import Effects
from coordinator.group.offset_commit import check_delete, delete_offsets
from coordinator.group.shard import GroupEffects
from metadata.image import MetadataImage
from protocol.error_codes import ErrorCode
from protocol.messages.offset_delete import (
    OFFSET_DELETE,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.coordinators.group.coordinator import GroupCoordinator
    from broker.metadata_cache import MetadataCache


@handles(OFFSET_DELETE)
def offset_delete(ctx: RequestContext, request: Struct, *, groups: GroupCoordinator, metadata: MetadataCache) -> Reply:
    if not request.group_id:
        return OFFSET_DELETE.response(error_code=ErrorCode.INVALID_GROUP_ID)
    shard = groups.at(request.group_id)
    if isinstance(shard, ErrorCode):
        return OFFSET_DELETE.response(error_code=shard)
    group = shard.groups.get(request.group_id)
    code = check_delete(group)
    if group is None or code is not ErrorCode.NONE:
        return OFFSET_DELETE.response(error_code=code)
    known, answers = split_unknown(metadata.image, request.topics)
    effects: GroupEffects = Effects()
    for topic in delete_offsets(shard, group, known, effects):
        if topic.name in answers:
            answers[topic.name].partitions += topic.partitions
        else:
            answers[topic.name] = topic
    code = groups.run(shard, effects)
    if code is not ErrorCode.NONE:
        return OFFSET_DELETE.response(error_code=code)
    response = OFFSET_DELETE.response(topics=list(answers.values()))
    return groups.after_commit((request.group_id,), response, lambda code: OFFSET_DELETE.response(error_code=code))


def split_unknown(image: MetadataImage, topics: list[Struct]) -> tuple[list[Struct], dict[str, Struct]]:
    """Return (topics with the partitions that exist, answers by topic for the others)."""
    known: list[Struct] = []
    answers: dict[str, Struct] = {}
    for topic in topics:
        found = image.topic(topic.name)
        there = [each for each in topic.partitions if found is not None and each.partition_index in found.partitions]
        if there:
            known.append(OffsetDeleteRequestTopic(name=topic.name, partitions=there))
        strange = [each for each in topic.partitions if each not in there]
        if strange or found is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            partitions = [
                OffsetDeleteResponsePartition(partition_index=each.partition_index, error_code=code) for each in strange
            ]
            answers[topic.name] = OffsetDeleteResponseTopic(name=topic.name, partitions=partitions)
    return known, answers
