"""ControllerRegistration v0: a controller registers with the active one (KIP-919)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.controlling.decided import decided
from broker.requests.context import RequestContext
from broker.requests.served_api import Reply
from protocol.messages.controller_registration import CONTROLLER_REGISTRATION
from protocol.schema import Struct

if TYPE_CHECKING:
    from controller.cluster_controller import ClusterController


def controller_registration(ctx: RequestContext, request: Struct, *, controller: ClusterController) -> Reply:
    return decided(CONTROLLER_REGISTRATION, controller.register_controller(request))
