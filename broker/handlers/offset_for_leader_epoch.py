"""OffsetForLeaderEpoch v0-v4: return the end offset of a leader epoch, so that clients can detect divergence.

Versions: v1 leader epoch (KIP-101); v2 current leader epoch; v3 replica id (KIP-320); v4 flexible. Kafka 4 has dropped
v0 and v1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.requests.dispatcher import RequestContext
from broker.requests.error_code_map import error_code_of
from broker.requests.served_api import handles
from protocol.messages.offset_for_leader_epoch import (
    OFFSET_FOR_LEADER_EPOCH,
    EpochEndOffset,
    OffsetForLeaderTopicResult,
)
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.replicas.partitions import Partitions


@handles(OFFSET_FOR_LEADER_EPOCH)
def offset_for_leader_epoch(ctx: RequestContext, request: Struct, *, partitions: Partitions) -> Struct:
    return OFFSET_FOR_LEADER_EPOCH.response(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_answer(partitions, topic.topic, asked) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _answer(partitions: Partitions, topic: str, asked: Struct) -> Struct:
    answer = EpochEndOffset(partition=asked.partition)
    partition = partitions.get(topic, asked.partition)
    if partition is None:
        answer.error_code = partitions.absence(topic, asked.partition, asked.current_leader_epoch)
        return answer
    answer.error_code = partition.check_exact_leader_epoch(asked.current_leader_epoch)
    if answer.error_code:
        return answer
    try:
        answer.leader_epoch, answer.end_offset = partition.log.end_offset_for_epoch(asked.leader_epoch)
    except Exception as error:
        answer.error_code = error_code_of(error)
    return answer
