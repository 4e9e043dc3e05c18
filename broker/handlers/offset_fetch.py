"""OffsetFetch v0-v10: return the offsets of groups.

Versions: v0, once for ZooKeeper, reports partitions without an offset as unknown; v2 all offsets of a group (null
topics) and an error of the whole group, which v1 repeats for each partition; v5 leader epochs (KIP-320); v7 stable
offsets (KIP-447); v8 several groups (KIP-709); v9 member epochs (KIP-848), which classic groups ignore; v10 topic ids
(KIP-848). Kafka 4 has dropped v0. A group that does not exist has no offsets, which is no error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.requests.dispatcher import RequestContext
from broker.requests.offset_fetch_answers import old_form, topic_error
from broker.requests.served_api import Reply, handles
from coordinator.group.offset_fetch import NO_OFFSET, fetch_all_offsets, fetch_offsets
from metadata.image import MetadataImage
from protocol.error_codes import ErrorCode
from protocol.messages.offset_fetch import (
    OFFSET_FETCH,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.coordinators.group.coordinator import GroupCoordinator
    from broker.metadata_cache import MetadataCache

FIRST_VERSION_WITH_COORDINATORS = 1
FIRST_VERSION_WITH_GROUP_ERRORS = 2
FIRST_VERSION_WITH_GROUPS = 8
FIRST_VERSION_WITH_TOPIC_IDS = 10


@handles(OFFSET_FETCH)
def offset_fetch(ctx: RequestContext, request: Struct, *, groups: GroupCoordinator, metadata: MetadataCache) -> Reply:
    stable = request.require_stable
    if ctx.api_version >= FIRST_VERSION_WITH_GROUPS:
        return OFFSET_FETCH.response(
            groups=[fetch_group(ctx.api_version, groups, metadata.image, group, stable) for group in request.groups]
        )
    topics = None
    if request.topics is not None:
        topics = [OffsetFetchRequestTopics(name=t.name, partition_indexes=t.partition_indexes) for t in request.topics]
    wanted = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    if ctx.api_version >= FIRST_VERSION_WITH_COORDINATORS:
        return old_form(fetch_group(ctx.api_version, groups, metadata.image, wanted, stable))
    # Clients of v0 send no FindCoordinator, which creates the topic of the groups for those of later versions.
    return groups.with_topic(
        lambda: call_unknown(old_form(fetch_group(ctx.api_version, groups, metadata.image, wanted, stable)))
    )


def fetch_group(version: int, groups: GroupCoordinator, image: MetadataImage, wanted: Struct, stable: bool) -> Struct:
    """Return the answer for one group."""
    group_id = wanted.group_id
    shard = groups.at(group_id)
    if isinstance(shard, ErrorCode):
        return group_error(wanted, shard, version)
    group = shard.groups.get(group_id)
    if group is not None:
        code = shard.kinds.of(group).check_fetch(group, wanted.member_id, wanted.member_epoch)
        if code is not ErrorCode.NONE:
            return group_error(wanted, code, version)
    by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
    if wanted.topics is None:
        topics = fetch_all_offsets(shard, group_id, stable)
        return OffsetFetchResponseGroup(group_id=group_id, topics=with_ids(image, topics) if by_id else topics)
    if not by_id:
        return OffsetFetchResponseGroup(group_id=group_id, topics=fetch_offsets(shard, group_id, wanted.topics, stable))
    known, strange = [], []
    for topic in wanted.topics:
        found = image.topic_by_id(topic.topic_id)
        if found is None:
            strange.append(topic_error(topic, ErrorCode.UNKNOWN_TOPIC_ID))
        else:
            topic.name = found.name
            known.append(topic)
    return OffsetFetchResponseGroup(group_id=group_id, topics=fetch_offsets(shard, group_id, known, stable) + strange)


def with_ids(image: MetadataImage, topics: list[Struct]) -> list[Struct]:
    """Set the ids of topics; leaves out deleted ones, which have none."""
    known = []
    for topic in topics:
        found = image.topic(topic.name)
        if found is not None:
            topic.topic_id = found.topic_id
            known.append(topic)
    return known


def group_error(wanted: Struct, code: ErrorCode, api_version: int) -> Struct:
    """Return the answer for a group with an error. v0 and v1 only have errors of partitions."""
    if api_version >= FIRST_VERSION_WITH_GROUP_ERRORS:
        return OffsetFetchResponseGroup(group_id=wanted.group_id, error_code=code)
    return OffsetFetchResponseGroup(
        group_id=wanted.group_id, topics=[topic_error(topic, code) for topic in wanted.topics or ()]
    )


def call_unknown(answer: Struct) -> Struct:
    """Report partitions without an offset as unknown, which clients of v0 expect."""
    for topic in answer.topics:
        for partition in topic.partitions:
            if partition.committed_offset == NO_OFFSET and not partition.error_code:
                partition.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return answer
