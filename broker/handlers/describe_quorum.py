"""DescribeQuorum v0-v2: describe the voters that keep the metadata, their leader and their progress (KIP-595).

Versions: v1 times of the last fetch (KIP-836); v2 directory ids, the listeners of voters, error messages (KIP-853).
This node is the only voter. No listener is open at the address in the answer: there is no controller listener.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from controller.metadata_log import TOPIC
from protocol.error_codes import ErrorCode
from protocol.messages.describe_quorum import (
    DESCRIBE_QUORUM,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)
from protocol.primitives import ZERO_UUID
from protocol.schema import Struct

if TYPE_CHECKING:
    from controller.quorum import MetadataQuorum
    from runtime.clock import Clock

_NOT_HOSTED = "This server does not host this topic-partition."


@handles(DESCRIBE_QUORUM)
def describe_quorum(ctx: RequestContext, request: Struct, *, quorum: MetadataQuorum, clock: Clock) -> Reply:
    return describe(ctx, request, quorum, clock.now_ms(), quorum.end_offset)


def describe(
    ctx: RequestContext,
    request: Struct,
    quorum: MetadataQuorum,
    now_ms: int,
    high_watermark: int,
    observers: Sequence[Struct] = (),
) -> Struct:
    """Return the response of the only voter, with the states of its observers, which have directory ids in v2."""
    asked = [(topic.topic_name, [each.partition_index for each in topic.partitions]) for topic in request.topics]
    if asked != [(TOPIC, [0])]:
        return DESCRIBE_QUORUM.response(error_message="", topics=[_refused(*each) for each in asked])
    voter = quorum.voter
    replica = ReplicaState(
        replica_id=voter.node_id,
        replica_directory_id=voter.directory_id if ctx.api_version >= 2 else ZERO_UUID,
        log_end_offset=quorum.end_offset,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    partition = ResponsePartitionData(
        error_message="",
        leader_id=voter.node_id,
        leader_epoch=quorum.epoch,
        high_watermark=high_watermark,
        current_voters=[replica],
        observers=list(observers),
    )
    nodes = []
    if ctx.api_version >= 2:
        listeners = [Listener(name=name, host=host, port=port) for name, host, port in voter.listeners]
        nodes = [Node(node_id=voter.node_id, listeners=listeners)]
    return DESCRIBE_QUORUM.response(
        error_message="",
        topics=[ResponseTopicData(topic_name=TOPIC, partitions=[partition])],
        nodes=nodes,
    )


def _refused(name: str, indexes: list[int]) -> Struct:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partitions = [
        ResponsePartitionData(partition_index=index, error_code=code, error_message=_NOT_HOSTED) for index in indexes
    ]
    return ResponseTopicData(topic_name=name, partitions=partitions)
