"""Answers to controllers that begin or end an epoch: as the only voter, this one knows no other leader (KIP-595)."""

from __future__ import annotations

from types import ModuleType

from broker.controlling.raft_leader import RaftLeader, only_partition
from broker.requests.context import RequestContext
from controller.metadata_log import TOPIC
from protocol.error_codes import ErrorCode
from protocol.schema import Api, Struct

_ENDPOINTS_FROM = 1


def refuse_other_leader(
    ctx: RequestContext, request: Struct, leader: RaftLeader, api: Api, messages: ModuleType
) -> Struct:
    """Return the refusal of a BeginQuorumEpoch or EndQuorumEpoch request, v0-v1.

    Errors: INCONSISTENT_CLUSTER_ID; INVALID_REQUEST for another partition; of the partition FENCED_LEADER_EPOCH for an
    epoch that is over, INCONSISTENT_VOTER_SET for others.
    """
    code = leader.cluster_error(request.cluster_id)
    asked = only_partition(request.topics)
    if code is ErrorCode.NONE and asked is None:
        code = ErrorCode.INVALID_REQUEST
    if code is not ErrorCode.NONE or asked is None:
        return api.response(error_code=code)
    refused = ErrorCode.INCONSISTENT_VOTER_SET
    if asked.leader_epoch < leader.epoch:
        refused = ErrorCode.FENCED_LEADER_EPOCH
    partition = messages.ResponsePartitionData(error_code=refused, leader_id=leader.node_id, leader_epoch=leader.epoch)
    endpoints = []
    if ctx.api_version >= _ENDPOINTS_FROM:
        endpoints = leader.node_endpoints(messages.NodeEndpoint, ctx.connection.listener_name)
    topics = [messages.ResponseTopicData(topic_name=TOPIC, partitions=[partition])]
    return api.response(topics=topics, node_endpoints=endpoints)
