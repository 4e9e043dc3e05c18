"""CreateDelegationToken v0-v3: issue a delegation token, with which others act as its owner until it expires (KIP-48).

Versions: v2 flexible; v3 for another owner (KIP-373). Refused over PLAINTEXT, and to clients that are authenticated by
a token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.access.authentication.delegation_tokens import may_ask, owner_and_requester_fields
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from metadata.decision import Refused
from metadata.delegation_tokens import NewToken, create_token
from protocol.error_codes import ErrorCode
from protocol.messages.create_delegation_token import CREATE_DELEGATION_TOKEN
from protocol.schema import Struct
from security.acl import Operation, ResourceType
from security.delegation_token import token_hmac

if TYPE_CHECKING:
    from broker.access.authentication.delegation_tokens import DelegationTokens
    from broker.access.authorization.guard import Guard
    from controller.controller import Controller
    from runtime.clock import Clock

USER_TYPE = "User"
_NO_TIME = -1


@handles(CREATE_DELEGATION_TOKEN)
def create_delegation_token(
    ctx: RequestContext,
    request: Struct,
    *,
    controller: Controller,
    delegation_tokens: DelegationTokens,
    clock: Clock,
    guard: Guard | None,
) -> Reply:
    requester = ctx.connection.principal
    owner = requester
    if request.owner_principal_name:
        owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
    people = owner_and_requester_fields(ctx.api_version, owner, requester)
    refusal = _refusal(guard, ctx, request, owner, requester)
    if refusal is not None:
        return CREATE_DELEGATION_TOKEN.response(
            error_code=refusal,
            issue_timestamp_ms=_NO_TIME,
            expiry_timestamp_ms=_NO_TIME,
            max_timestamp_ms=_NO_TIME,
            **people,
        )
    secret = delegation_tokens.secret
    if secret is None:
        return CREATE_DELEGATION_TOKEN.response(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, **people)
    renewers = tuple(f"{each.principal_type}:{each.principal_name}" for each in request.renewers)
    wanted = NewToken(delegation_tokens.new_id(), owner, requester, renewers, request.max_lifetime_ms)
    try:
        decision = create_token(controller.image, wanted, delegation_tokens.lifetimes, clock.now_ms())
    except Refused as refused:
        return CREATE_DELEGATION_TOKEN.response(error_code=refused.error_code, **people)
    (token,) = decision.results
    answer = CREATE_DELEGATION_TOKEN.response(
        issue_timestamp_ms=token.issue_timestamp,
        expiry_timestamp_ms=token.expiration_timestamp,
        max_timestamp_ms=token.max_timestamp,
        token_id=token.token_id,
        hmac=token_hmac(secret, token.token_id),
        **people,
    )
    return controller.submit(decision.records).then(lambda _: answer)


def _refusal(guard: Guard | None, ctx: RequestContext, request: Struct, owner: str, requester: str) -> ErrorCode | None:
    if not may_ask(ctx):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    for_another = owner != requester
    if for_another and guard is not None and not guard.may(ctx, Operation.CREATE_TOKENS, ResourceType.USER, owner):
        return ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    if any(each.principal_type != USER_TYPE for each in request.renewers):
        return ErrorCode.INVALID_PRINCIPAL_TYPE
    return None
