"""ReadShareGroupStateSummary v0-v1: return the start offsets of share-partitions (KIP-932).

Versions: v1 the number of records whose delivery is complete (KIP-1226).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinators.share.state_requests import answer_states, check_exists
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from coordinator.share.state import ShareKey
from protocol.messages.read_share_group_state_summary import (
    READ_SHARE_GROUP_STATE_SUMMARY,
    PartitionResult,
    ReadStateSummaryResult,
)
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.coordinators.share.coordinator import ShareCoordinator
    from broker.metadata_cache import MetadataCache


@handles(READ_SHARE_GROUP_STATE_SUMMARY)
def read_share_group_state_summary(
    ctx: RequestContext, request: Struct, *, share_coordinator: ShareCoordinator, metadata: MetadataCache
) -> Reply:
    def serve(share: ShareKey, asked: Struct, answered: Struct) -> None:
        check_exists(metadata, share)
        found = share_coordinator.summarize(share)
        answered.state_epoch, answered.leader_epoch = found.state_epoch, found.leader_epoch
        answered.start_offset = found.start_offset
        if ctx.api_version >= 1:
            answered.delivery_complete_count = found.delivery_complete_count

    return answer_states(
        share_coordinator,
        READ_SHARE_GROUP_STATE_SUMMARY,
        request,
        "read share group state summary",
        ReadStateSummaryResult,
        PartitionResult,
        serve,
    )
