"""DeleteShareGroupState v0: forget the state of share-partitions (KIP-932)."""

from __future__ import annotations

from broker.coordinators.share.state_requests import answer_states, check_exists
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from coordinator.share.state import ShareKey
from protocol.messages.delete_share_group_state import DELETE_SHARE_GROUP_STATE, DeleteStateResult, PartitionResult
from protocol.schema import Struct


@handles(DELETE_SHARE_GROUP_STATE)
def delete_share_group_state(ctx: RequestContext, request: Struct) -> Reply:
    states = ctx.broker.share_coordinator

    def serve(share: ShareKey, asked: Struct, answered: Struct) -> None:
        check_exists(ctx, share)
        states.delete(share)

    return answer_states(
        ctx, DELETE_SHARE_GROUP_STATE, request, "delete share group state", DeleteStateResult, PartitionResult, serve
    )
