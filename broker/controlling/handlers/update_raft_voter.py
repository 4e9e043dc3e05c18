"""UpdateRaftVoter v0: another node is no voter of this quorum, and this one updates itself at its start (KIP-853)."""

from __future__ import annotations

from broker.controlling.raft_leader import RaftLeader
from broker.requests.context import RequestContext
from broker.requests.served_api import Reply
from controller.quorum import log_refused_voter
from protocol.error_codes import ErrorCode
from protocol.messages.update_raft_voter import UPDATE_RAFT_VOTER, CurrentLeader
from protocol.schema import Struct


def update_raft_voter(ctx: RequestContext, request: Struct, *, leader: RaftLeader) -> Reply:
    code = leader.cluster_error(request.cluster_id)
    if code is ErrorCode.NONE:
        code = leader.epoch_error(request.current_leader_epoch)
    if code is ErrorCode.NONE:
        code = ErrorCode.UNSUPPORTED_VERSION if leader.directory_id is None else ErrorCode.VOTER_NOT_FOUND
    if code is not ErrorCode.FENCED_LEADER_EPOCH and code is not ErrorCode.UNKNOWN_LEADER_EPOCH:
        log_refused_voter(UPDATE_RAFT_VOTER.name, request.voter_id, code.name)
    own = next((each for each in leader.endpoints if each.name == ctx.connection.listener_name), None)
    current = CurrentLeader(
        leader_id=leader.node_id,
        leader_epoch=leader.epoch,
        host="" if own is None else own.host,
        port=0 if own is None else own.port,
    )
    return UPDATE_RAFT_VOTER.response(error_code=code, current_leader=current)
