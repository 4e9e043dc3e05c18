"""Vote v0-v2 of a controller that is the only voter: it votes for nobody else (KIP-595).

Versions: v1 voter and directory ids (KIP-853); v2 pre-vote (KIP-996).
"""

from __future__ import annotations

from broker.controlling.raft_leader import ANY, RaftLeader, only_partition
from broker.requests.context import RequestContext
from broker.requests.served_api import Reply
from controller.metadata_log import TOPIC
from protocol.error_codes import ErrorCode
from protocol.messages.vote import VOTE, NodeEndpoint, ResponsePartitionData, ResponseTopicData
from protocol.primitives import ZERO_UUID
from protocol.schema import Struct


def vote(ctx: RequestContext, request: Struct, *, leader: RaftLeader) -> Reply:
    code = leader.cluster_error(request.cluster_id)
    asked = only_partition(request.topics)
    if code is ErrorCode.NONE and asked is None:
        code = ErrorCode.INVALID_REQUEST
    if code is not ErrorCode.NONE or asked is None:
        return VOTE.response(error_code=code)
    partition = ResponsePartitionData(
        error_code=_error(leader, request, asked), leader_id=leader.node_id, leader_epoch=leader.epoch
    )
    endpoints = leader.node_endpoints(NodeEndpoint, ctx.connection.listener_name) if ctx.api_version >= 1 else []
    topics = [ResponseTopicData(topic_name=TOPIC, partitions=[partition])]
    return VOTE.response(topics=topics, node_endpoints=endpoints)


def _error(leader: RaftLeader, request: Struct, asked: Struct) -> ErrorCode:
    if asked.last_offset < 0 or asked.last_offset_epoch < 0 or asked.replica_id < 0:
        return ErrorCode.INVALID_REQUEST
    if asked.replica_epoch < leader.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if request.voter_id not in (ANY, leader.node_id):
        return ErrorCode.INVALID_VOTER_KEY
    if leader.directory_id is not None and asked.voter_directory_id not in (ZERO_UUID, leader.directory_id):
        return ErrorCode.INVALID_VOTER_KEY
    return ErrorCode.INCONSISTENT_VOTER_SET  # a candidate is a voter, and there is no other
