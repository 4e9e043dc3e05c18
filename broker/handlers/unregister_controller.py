"""UnregisterController v0: remove the registration of a controller (KIP-1312).

This node is the active controller and cannot be unregistered. A directory that another node used may have the
registration of that node's controller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from metadata.decision import Refused
from metadata.registration import unregister_controller as decide
from protocol.messages.unregister_controller import UNREGISTER_CONTROLLER
from protocol.schema import Struct

if TYPE_CHECKING:
    from config import BrokerConfig
    from controller.controller import Controller


@handles(UNREGISTER_CONTROLLER)
def unregister_controller(
    ctx: RequestContext, request: Struct, *, controller: Controller, config: BrokerConfig
) -> Reply:
    try:
        records = decide(controller.image, request.controller_id, active_id=config.node_id)
    except Refused as refused:
        return UNREGISTER_CONTROLLER.response(error_code=refused.error_code, error_message=refused.message)
    return controller.submit(records).then(lambda _: UNREGISTER_CONTROLLER.response(error_message=""))
