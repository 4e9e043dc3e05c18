"""AllocateProducerIds v0: a broker gets a block of producer ids (KIP-730)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.controlling.decided import decided
from broker.requests.context import RequestContext
from broker.requests.served_api import Reply
from protocol.messages.allocate_producer_ids import ALLOCATE_PRODUCER_IDS
from protocol.schema import Struct

if TYPE_CHECKING:
    from controller.cluster_controller import ClusterController


def allocate_producer_ids(ctx: RequestContext, request: Struct, *, controller: ClusterController) -> Reply:
    return decided(ALLOCATE_PRODUCER_IDS, controller.allocate_producer_ids_for(request))
