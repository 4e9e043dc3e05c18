"""ReadShareGroupState v0: return the state of share-partitions to the leader of their partitions (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinators.share.state_requests import answer_states
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from coordinator.share.state import ShareKey
from protocol.messages.read_share_group_state import READ_SHARE_GROUP_STATE, PartitionResult, ReadStateResult
from protocol.messages.read_share_group_state import StateBatch as StateBatchStruct
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.coordinators.share.coordinator import ShareCoordinator


@handles(READ_SHARE_GROUP_STATE)
def read_share_group_state(ctx: RequestContext, request: Struct, *, share_coordinator: ShareCoordinator) -> Reply:
    def serve(share: ShareKey, asked: Struct, answered: Struct) -> None:
        found = share_coordinator.read(share, asked.leader_epoch)
        answered.state_epoch, answered.start_offset = found.state_epoch, found.start_offset
        answered.state_batches = [StateBatchStruct(**batch._asdict()) for batch in found.batches]

    return answer_states(
        share_coordinator,
        READ_SHARE_GROUP_STATE,
        request,
        "read share group state",
        ReadStateResult,
        PartitionResult,
        serve,
    )
