"""UnregisterBroker v0: remove the registration of a broker (KIP-631).

This broker may be unregistered too, as in Kafka. Then clients no longer see it, it leads nothing, and it registers
again when it starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from metadata.decision import Refused
from metadata.registration import unregister_broker as decide
from protocol.messages.unregister_broker import UNREGISTER_BROKER
from protocol.schema import Struct

if TYPE_CHECKING:
    from controller.controller import Controller


@handles(UNREGISTER_BROKER)
def unregister_broker(ctx: RequestContext, request: Struct, *, controller: Controller) -> Reply:
    try:
        records = decide(controller.image, request.broker_id)
    except Refused as refused:
        return UNREGISTER_BROKER.response(error_code=refused.error_code, error_message=refused.message)
    return controller.submit(records).then(lambda _: UNREGISTER_BROKER.response(error_message=""))
