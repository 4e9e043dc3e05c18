"""Answers to Fetch as values of the schema, as a reference for the hand-written encoder."""

from __future__ import annotations

from protocol.fetch_answer import FetchAnswer, FetchedData
from protocol.messages.fetch import (
    FETCH,
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from protocol.schema import Struct


def as_struct(answer: FetchAnswer) -> Struct:
    """Return the same answer as a Struct."""
    return FETCH.response(
        throttle_time_ms=answer.throttle_time_ms,
        error_code=answer.error_code,
        session_id=answer.session_id,
        responses=[
            FetchableTopicResponse(
                topic=topic.name,
                topic_id=topic.topic_id,
                partitions=[_partition_struct(each) for each in topic.partitions],
            )
            for topic in answer.topics
        ],
        node_endpoints=[
            NodeEndpoint(node_id=each.node_id, host=each.host, port=each.port, rack=each.rack) for each in answer.nodes
        ],
    )


def _partition_struct(data: FetchedData) -> Struct:
    struct = PartitionData(
        partition_index=data.index,
        error_code=data.error_code,
        high_watermark=data.high_watermark,
        last_stable_offset=data.last_stable_offset,
        log_start_offset=data.log_start_offset,
        aborted_transactions=None
        if data.aborted is None
        else [
            AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset) for each in data.aborted
        ],
        preferred_read_replica=data.preferred_read_replica,
        records=data.records,
    )
    if data.diverging_epoch is not None:
        struct.diverging_epoch = EpochEndOffset(epoch=data.diverging_epoch.epoch, end_offset=data.diverging_epoch.value)
    if data.current_leader is not None:
        struct.current_leader = LeaderIdAndEpoch(
            leader_id=data.current_leader.value, leader_epoch=data.current_leader.epoch
        )
    return struct
