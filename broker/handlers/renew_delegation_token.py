"""RenewDelegationToken v0-v2: extend the life of a token, up to its maximum (KIP-48).

Versions: v2 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.access.authentication.delegation_tokens import change_end
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from metadata.decision import Decision
from metadata.delegation_tokens import renew_token
from protocol.messages.renew_delegation_token import RENEW_DELEGATION_TOKEN
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.access.authentication.delegation_tokens import DelegationTokens
    from controller.controller import Controller
    from runtime.clock import Clock


@handles(RENEW_DELEGATION_TOKEN)
def renew_delegation_token(
    ctx: RequestContext, request: Struct, *, delegation_tokens: DelegationTokens, controller: Controller, clock: Clock
) -> Reply:
    image, lifetimes = controller.image, delegation_tokens.lifetimes

    def decide(token: Struct, principal: str, now_ms: int) -> Decision[int]:
        return renew_token(image, token, principal, request.renew_period_ms, lifetimes, now_ms)

    return change_end(delegation_tokens, controller, clock, ctx, bytes(request.hmac), decide)
