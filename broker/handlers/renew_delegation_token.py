"""RenewDelegationToken v0-v2: a token's time begins anew, up to the end of its life (KIP-48).

Versions: v2 flexible.
"""

from __future__ import annotations

from broker.delegation_tokens import may_ask
from broker.dispatch import Reply, RequestContext, handles
from metadata.decision import Refused
from metadata.delegation_tokens import renew_token
from protocol.errors import ErrorCode
from protocol.messages.renew_delegation_token import RENEW_DELEGATION_TOKEN
from protocol.schema import Struct

_NO_TIME = -1


@handles(RENEW_DELEGATION_TOKEN)
def renew_delegation_token(ctx: RequestContext, request: Struct) -> Reply:
    tokens, controller = ctx.broker.delegation_tokens, ctx.broker.controller
    if not may_ask(ctx):
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return RENEW_DELEGATION_TOKEN.response(error_code=code, expiry_timestamp_ms=_NO_TIME)
    if tokens.secret is None:
        return RENEW_DELEGATION_TOKEN.response(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    token = tokens.by_hmac(bytes(request.hmac))
    if token is None:
        return RENEW_DELEGATION_TOKEN.response(error_code=ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    principal, now_ms = ctx.connection.principal, ctx.broker.clock.now_ms()
    try:
        decision = renew_token(controller.image, token, principal, request.renew_period_ms, tokens.lifetimes, now_ms)
    except Refused as refused:
        return RENEW_DELEGATION_TOKEN.response(error_code=refused.error_code)
    (end_ms,) = decision.results
    answer = RENEW_DELEGATION_TOKEN.response(expiry_timestamp_ms=end_ms)
    return controller.submit(decision.records).then(lambda _: answer)
