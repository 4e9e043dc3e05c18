"""Parts of OffsetFetch answers that its handler and its access rule share."""

from __future__ import annotations

from coordinator.group.offset_fetch import partition_error
from protocol.error_codes import ErrorCode
from protocol.messages.offset_fetch import (
    OFFSET_FETCH,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from protocol.schema import Struct


def topic_error(topic: Struct, code: ErrorCode) -> Struct:
    """Return the answer for a topic whose partitions all have the same error."""
    partitions = [partition_error(index, code) for index in topic.partition_indexes]
    return OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


def old_form(group: Struct) -> Struct:
    """Return the form of the answer up to v7: one group, without a list around it."""
    return OFFSET_FETCH.response(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )
