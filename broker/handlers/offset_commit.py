"""OffsetCommit v0-v10: store the offsets of a group.

Versions: v0 without members, once kept in ZooKeeper, here with the others; v1 members, and a time for each offset;
v2-v4 a retention time of the client; v6 leader epochs (KIP-320); v7 group instance ids (KIP-345); v9 member epochs
(KIP-848) and GROUP_ID_NOT_FOUND; v10 topic ids (KIP-848). Kafka 4 has dropped v0 and v1.

Offsets of missing topics and partitions are refused one by one, before the group is checked. If no offset is left, the
group is not checked at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker.coordinators.group.single_commit import commit_single
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from coordinator.effects import Effects
from coordinator.group.offset_commit import check_commit, commit_offsets
from coordinator.group.shard import GroupEffects
from metadata.image import MetadataImage
from protocol.error_codes import ErrorCode
from protocol.messages.offset_commit import (
    OFFSET_COMMIT,
    OffsetCommitRequestTopic,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.coordinators.group.coordinator import GroupCoordinator
    from broker.metadata_cache import MetadataCache

FIRST_VERSION_WITH_TOPIC_IDS = 10

new_response = OFFSET_COMMIT.response.new


@handles(OFFSET_COMMIT, fast_path=commit_single)
def offset_commit(ctx: RequestContext, request: Struct, *, groups: GroupCoordinator, metadata: MetadataCache) -> Reply:
    refused = refuse_unknown(metadata.image, request, ctx.api_version >= FIRST_VERSION_WITH_TOPIC_IDS)
    if not request.topics:
        return new_response(topics=refused)

    def decide() -> Reply:
        shard = groups.at(request.group_id)
        code = shard if isinstance(shard, ErrorCode) else check_commit(shard, request, request.topics, ctx.api_version)
        if isinstance(shard, ErrorCode) or code is not ErrorCode.NONE:
            return new_response(topics=merged(refused, failed(request.topics, code)))
        effects: GroupEffects = Effects()
        topics = commit_offsets(shard, request, groups.now(), effects)
        code = groups.run(shard, effects)

        def refusal(code: ErrorCode) -> Struct:
            return new_response(topics=merged(refused, failed(request.topics, code)))

        if code is not ErrorCode.NONE:
            return refusal(code)
        return groups.after_commit((request.group_id,), new_response(topics=merged(refused, topics)), refusal)

    return groups.with_topic(decide)


def refuse_unknown(image: MetadataImage, request: Struct, by_id: bool) -> list[Struct]:
    """Remove missing topics and partitions from the request and return their answers. Completes name and id."""
    refused = []
    known = []
    for topic in request.topics:
        found = image.topic_by_id(topic.topic_id) if by_id else image.topic(topic.name)
        if found is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            refused += failed([topic], code)
            continue
        topic.name, topic.topic_id = found.name, found.topic_id
        partitions = found.partitions
        strange = [partition for partition in topic.partitions if partition.partition_index not in partitions]
        if strange:
            refused += failed([new_topic(topic, strange)], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            rest = [partition for partition in topic.partitions if partition.partition_index in partitions]
            topic = new_topic(topic, rest)
        if topic.partitions:
            known.append(topic)
    request.topics = known
    return refused


def new_topic(topic: Struct, partitions: list[Struct]) -> Struct:
    """Return the topic with other partitions."""
    return OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


def failed(topics: Sequence[Struct], code: ErrorCode) -> list[Struct]:
    """Return the answer for topics whose partitions all have the same error."""
    return [
        OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
                for partition in topic.partitions
            ],
        )
        for topic in topics
    ]


def merged(refused: list[Struct], answered: list[Struct]) -> list[Struct]:
    """Return both lists as one, the refused topics first. A topic of both lists appears once."""
    if not refused:
        return answered
    by_name = {topic.name: topic for topic in refused}
    for topic in answered:
        if topic.name in by_name:
            by_name[topic.name].partitions += topic.partitions
        else:
            refused.append(topic)
    return refused
