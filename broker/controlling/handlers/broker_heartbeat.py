"""BrokerHeartbeat v0-v2: a broker is alive, and asks to be unfenced or to leave (KIP-631).

Versions: v1 failed log directories (KIP-858); v2 cordoned log directories (KIP-1066).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.controlling.decided import decided
from broker.requests.context import RequestContext
from broker.requests.served_api import Reply
from protocol.messages.broker_heartbeat import BROKER_HEARTBEAT
from protocol.schema import Struct

if TYPE_CHECKING:
    from controller.cluster_controller import ClusterController


def broker_heartbeat(ctx: RequestContext, request: Struct, *, controller: ClusterController) -> Reply:
    return decided(BROKER_HEARTBEAT, controller.heartbeat(request))
