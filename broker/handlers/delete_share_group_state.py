"""DeleteShareGroupState v0: delete the state of share-partitions (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinators.share.state_requests import answer_states, check_exists
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from coordinator.share.state import ShareKey
from protocol.messages.delete_share_group_state import DELETE_SHARE_GROUP_STATE, DeleteStateResult, PartitionResult
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.coordinators.share.coordinator import ShareCoordinator
    from broker.metadata_cache import MetadataCache


@handles(DELETE_SHARE_GROUP_STATE)
def delete_share_group_state(
    ctx: RequestContext, request: Struct, *, share_coordinator: ShareCoordinator, metadata: MetadataCache
) -> Reply:
    def serve(share: ShareKey, asked: Struct, answered: Struct) -> None:
        check_exists(metadata, share)
        share_coordinator.delete(share)

    return answer_states(
        share_coordinator,
        DELETE_SHARE_GROUP_STATE,
        request,
        "delete share group state",
        DeleteStateResult,
        PartitionResult,
        serve,
    )
