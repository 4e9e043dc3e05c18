"""DescribeQuorum v0-v2 of a controller: the voter, and the brokers that follow the metadata log (KIP-595).

Versions: v1 times of the last fetch (KIP-836); v2 directory ids, the listeners of voters, error messages (KIP-853).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.requests.context import RequestContext
from broker.requests.served_api import Reply
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
    from broker.controlling.metadata_reads import MetadataReads
    from broker.controlling.observers import Observers
    from controller.quorum import MetadataQuorum
    from runtime.clock import Clock

_NOT_HOSTED = "This server does not host this topic-partition."
_DIRECTORIES_FROM = 2


def describe_quorum(
    ctx: RequestContext,
    request: Struct,
    *,
    quorum: MetadataQuorum,
    reads: MetadataReads,
    observers: Observers,
    clock: Clock,
) -> Reply:
    asked = [(topic.topic_name, [each.partition_index for each in topic.partitions]) for topic in request.topics]
    if asked != [(TOPIC, [0])]:
        return DESCRIBE_QUORUM.response(error_message="", topics=[_refused(*each) for each in asked])
    voter, now_ms, has_directories = quorum.voter, clock.now_ms(), ctx.api_version >= _DIRECTORIES_FROM
    own = ReplicaState(
        replica_id=voter.node_id,
        replica_directory_id=voter.directory_id if has_directories else ZERO_UUID,
        log_end_offset=quorum.end_offset,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    partition = ResponsePartitionData(
        error_message="",
        leader_id=voter.node_id,
        leader_epoch=quorum.epoch,
        high_watermark=reads.high_watermark,
        current_voters=[own],
        observers=[
            ReplicaState(
                replica_id=each.node_id,
                replica_directory_id=each.directory_id if has_directories else ZERO_UUID,
                log_end_offset=each.log_end_offset,
                last_fetch_timestamp=each.last_fetch_ms,
                last_caught_up_timestamp=each.last_caught_up_ms,
            )
            for each in observers
        ],
    )
    nodes = []
    if has_directories:
        listeners = [Listener(name=name, host=host, port=port) for name, host, port in voter.listeners]
        nodes = [Node(node_id=voter.node_id, listeners=listeners)]
    topic = ResponseTopicData(topic_name=TOPIC, partitions=[partition])
    return DESCRIBE_QUORUM.response(error_message="", topics=[topic], nodes=nodes)


def _refused(name: str, indexes: list[int]) -> Struct:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partitions = [
        ResponsePartitionData(partition_index=index, error_code=code, error_message=_NOT_HOSTED) for index in indexes
    ]
    return ResponseTopicData(topic_name=name, partitions=partitions)
