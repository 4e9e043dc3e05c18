"""ExpireDelegationToken v0-v2: change when a token expires, or expire it at once (KIP-48).

Versions: v2 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.access.authentication.delegation_tokens import change_end
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from metadata.decision import Decision
from metadata.delegation_tokens import expire_token
from protocol.messages.expire_delegation_token import EXPIRE_DELEGATION_TOKEN
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.access.authentication.delegation_tokens import DelegationTokens
    from controller.controller import Controller
    from runtime.clock import Clock


@handles(EXPIRE_DELEGATION_TOKEN)
def expire_delegation_token(
    ctx: RequestContext, request: Struct, *, delegation_tokens: DelegationTokens, controller: Controller, clock: Clock
) -> Reply:
    image = controller.image

    def decide(token: Struct, principal: str, now_ms: int) -> Decision[int]:
        return expire_token(image, token, principal, request.expiry_time_period_ms, now_ms)

    return change_end(delegation_tokens, controller, clock, ctx, bytes(request.hmac), decide)
