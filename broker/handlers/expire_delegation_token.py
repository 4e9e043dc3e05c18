"""ExpireDelegationToken v0-v2: a token ends at another time, or at once (KIP-48).

Versions: v2 flexible.
"""

from __future__ import annotations

from broker.delegation_tokens import may_ask
from broker.dispatch import Reply, RequestContext, handles
from metadata.decision import Refused
from metadata.delegation_tokens import expire_token
from protocol.errors import ErrorCode
from protocol.messages.expire_delegation_token import EXPIRE_DELEGATION_TOKEN
from protocol.schema import Struct

_NO_TIME = -1


@handles(EXPIRE_DELEGATION_TOKEN)
def expire_delegation_token(ctx: RequestContext, request: Struct) -> Reply:
    tokens, controller = ctx.broker.delegation_tokens, ctx.broker.controller
    if not may_ask(ctx):
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return EXPIRE_DELEGATION_TOKEN.response(error_code=code, expiry_timestamp_ms=_NO_TIME)
    if tokens.secret is None:
        return EXPIRE_DELEGATION_TOKEN.response(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    token = tokens.by_hmac(bytes(request.hmac))
    if token is None:
        return EXPIRE_DELEGATION_TOKEN.response(error_code=ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    principal, now_ms = ctx.connection.principal, ctx.broker.clock.now_ms()
    try:
        decision = expire_token(controller.image, token, principal, request.expiry_time_period_ms, now_ms)
    except Refused as refused:
        return EXPIRE_DELEGATION_TOKEN.response(error_code=refused.error_code)
    (end_ms,) = decision.results
    answer = EXPIRE_DELEGATION_TOKEN.response(expiry_timestamp_ms=end_ms)
    return controller.submit(decision.records).then(lambda _: answer)
