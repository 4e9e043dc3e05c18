"""Metadata v0-v13: list brokers, topics and the leaders of their partitions.

Versions: an empty list of topics means all of them in v0, later null does; v4 may forbid the creation of missing topics
(KIP-204), which earlier versions allow; v5 offline replicas; v7 leader epochs (KIP-320); v8 authorized operations
(KIP-430; of the cluster until v10); v10 topic ids; v12 topics by id (KIP-516), whose names are ignored; v13 an error
code for the whole answer. A topic that is created by the request is reported as unknown, as in Kafka. It exists a
moment later, when the client retries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from broker.access.authorization.operations import NOT_ASKED, cluster_operations, topic_operations
from broker.access.quotas.mutations import admit
from broker.automatic_topics import AutomaticTopics
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from metadata.image import MetadataImage, TopicImage
from metadata.partition_registration import NO_LEADER, PartitionRegistration
from metadata.topic_names import is_internal, name_problem
from protocol.error_codes import ErrorCode
from protocol.messages.metadata import (
    METADATA,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol.primitives import ZERO_UUID
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.access.authorization.guard import Guard
    from broker.metadata_cache import MetadataCache
    from broker.requests.advertised_endpoints import AdvertisedEndpoints
    from config import BrokerConfig
    from runtime.timers import Timers

TOPIC_IDS_VERSION = 12

#: How long a topic that a request creates stays unknown. Clients retry after 100 ms or more. Some need the delay: a
#: group member of kafka-go asks for the topic to get partitions assigned, and again to watch for new partitions, and
#: must find none both times. Kafka's controller takes about as long.
CREATION_MS = 50

_new_partition = MetadataResponsePartition.new


@handles(METADATA)
def metadata(
    ctx: RequestContext,
    request: Struct,
    *,
    config: BrokerConfig,
    metadata: MetadataCache,
    topics: AutomaticTopics,
    timers: Timers,
    endpoints: AdvertisedEndpoints,
    guard: Guard | None,
) -> Reply:
    if _is_invalid(ctx.api_version, request):
        refused = [_error(ErrorCode.INVALID_REQUEST, t.name or "", t.topic_id) for t in request.topics]
        return METADATA.response(topics=refused, error_code=ErrorCode.INVALID_REQUEST)
    found = list(_topics(ctx, metadata, request))
    missing = [each.name for each in found if each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    if missing and request.allow_auto_topic_creation and config.get_bool("auto.create.topics.enable"):
        timers.call_later(CREATION_MS, lambda: _create(ctx, metadata.image, topics, missing))
    if request.include_topic_authorized_operations:
        for topic in found:
            if topic.name is not None:
                topic.topic_authorized_operations = topic_operations(guard, ctx, topic.name)
    return METADATA.response(
        brokers=[
            MetadataResponseBroker(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in endpoints.nodes(ctx.connection)
        ],
        cluster_id=metadata.cluster_id,
        controller_id=endpoints.controller_id(),
        topics=found,
        cluster_authorized_operations=(
            cluster_operations(guard, ctx) if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _is_invalid(version: int, request: Struct) -> bool:
    """Whether a topic has no name and ids do not count: in versions with ids in answers only, or without any id."""
    topics = request.topics or ()
    has_ids = any(topic.topic_id != ZERO_UUID for topic in topics)
    if version < TOPIC_IDS_VERSION and has_ids:
        return True
    return not has_ids and any(topic.name is None for topic in topics)


def _topics(ctx: RequestContext, metadata: MetadataCache, request: Struct) -> Iterator[Struct]:
    image = metadata.image
    wanted = request.topics
    if wanted is None or (not wanted and ctx.api_version == 0):
        for topic in image.topics_by_name.values():
            yield _topic(image, topic)
        return
    ids = dict.fromkeys(each.topic_id for each in wanted if each.topic_id != ZERO_UUID)
    if ids:
        for topic_id in ids:
            found = image.topic_by_id(topic_id)
            yield _error(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id) if found is None else _topic(image, found)
        return
    for name in dict.fromkeys(each.name for each in wanted):
        found = image.topic(name)
        if found is not None:
            yield _topic(image, found)
        elif name_problem(name) is not None:
            yield _error(ErrorCode.INVALID_TOPIC_EXCEPTION, name)
        else:
            yield _error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)


def _create(ctx: RequestContext, image: MetadataImage, topics: AutomaticTopics, names: list[str]) -> None:
    """Create the topics that still do not exist."""
    topics.create([name for name in names if image.topic(name) is None], admit(ctx, strict_from=0), ctx.connection)


def _error(error_code: ErrorCode, name: str | None, topic_id: bytes = ZERO_UUID) -> Struct:
    return MetadataResponseTopic(
        error_code=error_code, name=name, topic_id=topic_id, is_internal=name is not None and is_internal(name)
    )


def _topic(image: MetadataImage, topic: TopicImage) -> Struct:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic.name),
        partitions=[_partition(image, index, partition) for index, partition in topic.partitions.items()],
    )


def _partition(image: MetadataImage, index: int, partition: PartitionRegistration) -> Struct:
    return _new_partition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if partition.leader == NO_LEADER else ErrorCode.NONE,
        partition_index=index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        offline_replicas=image.offline_replicas(partition),
    )
