"""WriteShareGroupState v0-v1: store changes of share-partitions (KIP-932).

Versions: v1 the number of records whose delivery is complete (KIP-1226).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinators.share.state_requests import answer_states
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from coordinator.share.state import ShareKey, StateBatch
from protocol.messages.write_share_group_state import WRITE_SHARE_GROUP_STATE, PartitionResult, WriteStateResult
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.coordinators.share.coordinator import ShareCoordinator


@handles(WRITE_SHARE_GROUP_STATE)
def write_share_group_state(ctx: RequestContext, request: Struct, *, share_coordinator: ShareCoordinator) -> Reply:
    def serve(share: ShareKey, asked: Struct, answered: Struct) -> None:
        share_coordinator.write(
            share,
            state_epoch=asked.state_epoch,
            leader_epoch=asked.leader_epoch,
            start_offset=asked.start_offset,
            delivery_complete_count=asked.delivery_complete_count,
            batches=tuple(
                StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
                for each in asked.state_batches
            ),
        )

    return answer_states(
        share_coordinator,
        WRITE_SHARE_GROUP_STATE,
        request,
        "write share group state",
        WriteStateResult,
        PartitionResult,
        serve,
    )
