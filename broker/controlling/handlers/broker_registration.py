"""BrokerRegistration v0-v4: a broker joins the cluster (KIP-631).

Versions: v1 migration (KIP-866), which is refused; v2 log directories (KIP-858); v3 the epoch of the last clean run
(KIP-966); v4 features whose lowest level is 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.controlling.decided import decided
from broker.requests.context import RequestContext
from broker.requests.served_api import Reply
from protocol.messages.broker_registration import BROKER_REGISTRATION
from protocol.schema import Struct

if TYPE_CHECKING:
    from controller.cluster_controller import ClusterController


def broker_registration(ctx: RequestContext, request: Struct, *, controller: ClusterController) -> Reply:
    return decided(BROKER_REGISTRATION, controller.register_broker(request))
