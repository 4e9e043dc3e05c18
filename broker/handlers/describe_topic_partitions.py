"""DescribeTopicPartitions v0: describe topics with their partitions, in pages (KIP-966).

Topics are sorted by name. A page ends after max.request.partition.size.limit partitions, or after the number that the
client asks for if that is lower, but has at least one. The cursor of a page is the begin of the next one. Authorized
operations are always included.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from broker.access.authorization.operations import topic_operations
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from metadata.image import MetadataImage, TopicImage
from metadata.partition_registration import NO_LEADER
from metadata.topic_names import is_internal, name_problem
from protocol.error_codes import ErrorCode
from protocol.messages.describe_topic_partitions import (
    DESCRIBE_TOPIC_PARTITIONS,
    Cursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.access.authorization.guard import Guard
    from broker.metadata_cache import MetadataCache
    from config import BrokerConfig

_new_partition = DescribeTopicPartitionsResponsePartition.new


@handles(DESCRIBE_TOPIC_PARTITIONS)
def describe_topic_partitions(
    ctx: RequestContext,
    request: Struct,
    *,
    config: BrokerConfig,
    metadata: MetadataCache,
    guard: Guard | None,
) -> Reply:
    image = metadata.image
    cursor = request.cursor
    everything = not request.topics
    if any(not topic.name for topic in request.topics):  # as in Kafka, whose authorizer has no resource without a name
        return _refused(request, ErrorCode.UNKNOWN_SERVER_ERROR)
    names = sorted(image.topics_by_name if everything else {topic.name for topic in request.topics})
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
        if cursor.partition_index < 0 or not (everything or names[:1] == [cursor.topic_name]):
            return _refused(request, ErrorCode.INVALID_REQUEST)
    names, hidden = _visible(guard, ctx, names, log_if_denied=not everything)
    refused = [] if everything else [_refusal(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for name in hidden]
    limit = config.get_int("max.request.partition.size.limit")
    left = max(min(limit, request.response_partition_limit), 1)
    topics: list[Struct] = []
    for name in names:
        if left == 0:
            return _page(guard, ctx, topics, refused, Cursor(topic_name=name, partition_index=0))
        start = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        topic = image.topic(name)
        if topic is None:
            topics.append(_unknown(name))
            continue
        found = list(islice(_partitions(image, topic, start), left + 1))
        topics.append(_described(topic, found[:left]))
        if len(found) > left:
            return _page(
                guard, ctx, topics, refused, Cursor(topic_name=name, partition_index=found[left].partition_index)
            )
        left -= len(found)
    return _page(guard, ctx, topics, refused, None)


def _visible(
    guard: Guard | None, ctx: RequestContext, names: list[str], *, log_if_denied: bool
) -> tuple[list[str], list[str]]:
    """Return the topics that the client may describe, and the others, which pages and cursors leave out."""
    if guard is None:
        return names, []
    may_describe = guard.describer(ctx, log_if_denied=log_if_denied)
    visible = [name for name in names if may_describe(name)]
    return visible, sorted({*names}.difference(visible))


def _page(
    guard: Guard | None, ctx: RequestContext, topics: list[Struct], refused: list[Struct], following: Struct | None
) -> Struct:
    """Return a page. Each page ends with the named topics that the client may not describe."""
    for topic in topics:
        topic.topic_authorized_operations = topic_operations(guard, ctx, topic.name)
    return DESCRIBE_TOPIC_PARTITIONS.response(topics=topics + refused, next_cursor=following)


def _refused(request: Struct, code: ErrorCode) -> Struct:
    """Return the same error for all topics."""
    return DESCRIBE_TOPIC_PARTITIONS.response(topics=[_refusal(topic.name, code) for topic in request.topics])


def _refusal(name: str, code: ErrorCode) -> Struct:
    return DescribeTopicPartitionsResponseTopic(error_code=code, name=name)


def _unknown(name: str) -> Struct:
    bad_name = name_problem(name) is not None
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.INVALID_TOPIC_EXCEPTION if bad_name else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        name=name,
        is_internal=is_internal(name),
    )


def _described(topic: TopicImage, partitions: list[Struct]) -> Struct:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic.name),
        partitions=partitions,
    )


def _partitions(image: MetadataImage, topic: TopicImage, start: int) -> Iterator[Struct]:
    for index in range(start, len(topic.partitions)):
        partition = topic.partitions[index]
        yield _new_partition(
            error_code=ErrorCode.LEADER_NOT_AVAILABLE if partition.leader == NO_LEADER else ErrorCode.NONE,
            partition_index=index,
            leader_id=partition.leader,
            leader_epoch=partition.leader_epoch,
            replica_nodes=partition.replicas,
            isr_nodes=partition.isr,
            eligible_leader_replicas=partition.eligible_leader_replicas,
            last_known_elr=partition.last_known_elr,
            offline_replicas=image.offline_replicas(partition),
        )
