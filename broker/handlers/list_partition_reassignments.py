"""ListPartitionReassignments v0: list the ongoing reassignments (KIP-455) of some partitions or, with null topics, of
all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from metadata.image import MetadataImage, TopicImage
from protocol.messages.list_partition_reassignments import (
    LIST_PARTITION_REASSIGNMENTS,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.metadata_cache import MetadataCache


@handles(LIST_PARTITION_REASSIGNMENTS)
def list_partition_reassignments(ctx: RequestContext, request: Struct, *, metadata: MetadataCache) -> Reply:
    topics = []
    for topic, indexes in _asked(metadata.image, request):
        ongoing = [
            OngoingPartitionReassignment(
                partition_index=index,
                replicas=partition.replicas,
                adding_replicas=partition.adding_replicas,
                removing_replicas=partition.removing_replicas,
            )
            for index in indexes
            if (partition := topic.partitions.get(index)) is not None and partition.is_reassigning
        ]
        if ongoing:
            topics.append(OngoingTopicReassignment(name=topic.name, partitions=ongoing))
    return LIST_PARTITION_REASSIGNMENTS.response(error_message=None, topics=topics)


def _asked(image: MetadataImage, request: Struct) -> Iterator[tuple[TopicImage, list[int]]]:
    if request.topics is None:
        for topic in image.topics_by_name.values():
            yield topic, list(topic.partitions)
        return
    for asked in request.topics:
        found = image.topic(asked.name)
        if found is not None:
            yield found, asked.partition_indexes
