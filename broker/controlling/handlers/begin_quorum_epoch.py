"""BeginQuorumEpoch v0-v1: another leader's epoch is refused, because this controller is the only voter (KIP-595).

Versions: v1 flexible, endpoints (KIP-853).
"""

from __future__ import annotations

from broker.controlling.raft_leader import RaftLeader, only_partition
from broker.requests.context import RequestContext
from broker.requests.served_api import Reply
from controller.metadata_log import TOPIC
from protocol.error_codes import ErrorCode
from protocol.messages.begin_quorum_epoch import (
    BEGIN_QUORUM_EPOCH,
    NodeEndpoint,
    ResponsePartitionData,
    ResponseTopicData,
)
from protocol.schema import Struct


def begin_quorum_epoch(ctx: RequestContext, request: Struct, *, leader: RaftLeader) -> Reply:
    code = leader.cluster_error(request.cluster_id)
    asked = only_partition(request.topics)
    if code is ErrorCode.NONE and asked is None:
        code = ErrorCode.INVALID_REQUEST
    if code is not ErrorCode.NONE or asked is None:
        return BEGIN_QUORUM_EPOCH.response(error_code=code)
    refused = ErrorCode.INCONSISTENT_VOTER_SET
    if asked.leader_epoch < leader.epoch:
        refused = ErrorCode.FENCED_LEADER_EPOCH
    partition = ResponsePartitionData(error_code=refused, leader_id=leader.node_id, leader_epoch=leader.epoch)
    endpoints = leader.node_endpoints(NodeEndpoint, ctx.connection.listener_name) if ctx.api_version >= 1 else []
    topics = [ResponseTopicData(topic_name=TOPIC, partitions=[partition])]
    return BEGIN_QUORUM_EPOCH.response(topics=topics, node_endpoints=endpoints)
