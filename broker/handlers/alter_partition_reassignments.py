"""AlterPartitionReassignments v0-v1: change the replicas of partitions (KIP-455).

Versions: v1 may forbid a change of the replication factor (KIP-860). A node alone knows no other brokers, and accepts
the same replicas, which tools send.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from metadata.decision import PartitionResult
from protocol.error_codes import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from protocol.schema import Struct

if TYPE_CHECKING:
    from controller.controller import Controller


@handles(ALTER_PARTITION_REASSIGNMENTS)
def alter_partition_reassignments(ctx: RequestContext, request: Struct, *, controller: Controller) -> Reply:
    if not request.topics:
        return ALTER_PARTITION_REASSIGNMENTS.response(error_message="")
    targets = [
        (
            topic.name,
            partition.partition_index,
            None if partition.replicas is None else tuple(partition.replicas),
        )
        for topic in request.topics
        for partition in topic.partitions
    ]
    if request.timeout_ms <= 0:
        late = [PartitionResult(name, index, ErrorCode.REQUEST_TIMED_OUT, None) for name, index, _ in targets]
        return _reply(request, late, ErrorCode.REQUEST_TIMED_OUT)
    altered = controller.alter_reassignments(targets, may_change_factor=request.allow_replication_factor_change)
    return altered.then(lambda results: _reply(request, results))


def _reply(request: Struct, results: list[PartitionResult], error_code: ErrorCode = ErrorCode.NONE) -> Struct:
    by_topic: dict[str, list[Struct]] = {topic.name: [] for topic in request.topics}
    for result in results:
        by_topic[result.topic].append(
            ReassignablePartitionResponse(
                partition_index=result.partition, error_code=result.error_code, error_message=result.error_message
            )
        )
    return ALTER_PARTITION_REASSIGNMENTS.response(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=error_code,
        error_message=None,
        responses=[ReassignableTopicResponse(name=name, partitions=each) for name, each in by_topic.items()],
    )
