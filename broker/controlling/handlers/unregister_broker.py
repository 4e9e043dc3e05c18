"""UnregisterBroker v0: remove the registration of a broker (KIP-631)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.controlling.decided import decided
from broker.requests.context import RequestContext
from broker.requests.served_api import Reply
from protocol.messages.unregister_broker import UNREGISTER_BROKER
from protocol.schema import Struct

if TYPE_CHECKING:
    from controller.cluster_controller import ClusterController


def unregister_broker(ctx: RequestContext, request: Struct, *, controller: ClusterController) -> Reply:
    return decided(UNREGISTER_BROKER, controller.unregister_broker(request))
