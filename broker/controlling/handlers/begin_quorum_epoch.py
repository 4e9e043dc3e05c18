"""BeginQuorumEpoch v0-v1: another leader's epoch is refused, because this controller is the only voter (KIP-595).

Versions: v1 flexible, endpoints (KIP-853).
"""

from __future__ import annotations

from broker.controlling.other_leaders import refuse_other_leader
from broker.controlling.raft_leader import RaftLeader
from broker.requests.context import RequestContext
from broker.requests.served_api import Reply
from protocol.messages import begin_quorum_epoch as messages
from protocol.schema import Struct


def begin_quorum_epoch(ctx: RequestContext, request: Struct, *, leader: RaftLeader) -> Reply:
    return refuse_other_leader(ctx, request, leader, messages.BEGIN_QUORUM_EPOCH, messages)
