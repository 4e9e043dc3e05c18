"""DescribeProducers v0: list the idempotent and transactional producers that a partition remembers (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.requests.dispatcher import RequestContext
from broker.requests.error_code_map import error_code_of
from broker.requests.served_api import handles
from metadata.topic_names import name_problem
from protocol.error_codes import ErrorCode
from protocol.messages.describe_producers import DESCRIBE_PRODUCERS, PartitionResponse, ProducerState, TopicResponse
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.replicas.partitions import Partitions


@handles(DESCRIBE_PRODUCERS)
def describe_producers(ctx: RequestContext, request: Struct, *, partitions: Partitions) -> Struct:
    return DESCRIBE_PRODUCERS.response(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_describe(partitions, topic.name, index) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _describe(partitions: Partitions, name: str, index: int) -> Struct:
    partition = partitions.get(name, index)
    answer = PartitionResponse(partition_index=index)
    if partition is None and (problem := name_problem(name)) is not None:
        answer.error_code, answer.error_message = ErrorCode.INVALID_TOPIC_EXCEPTION, problem
        return answer
    if partition is None:
        answer.error_code = partitions.absence(name, index)
        if not partitions.of_topic(name):
            answer.error_message = "This server does not host this topic-partition."
        return answer
    try:
        producers = list(partition.log.producer_state.producers.values())
    except Exception as error:
        answer.error_code = error_code_of(error)
        return answer
    answer.active_producers = [
        ProducerState(
            producer_id=each.producer_id,
            producer_epoch=each.producer_epoch,
            last_sequence=each.last_sequence,
            last_timestamp=each.last_timestamp,
            coordinator_epoch=each.coordinator_epoch,
            current_txn_start_offset=each.transaction_offset,
        )
        for each in producers
    ]
    return answer
