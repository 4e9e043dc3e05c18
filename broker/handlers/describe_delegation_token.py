"""DescribeDelegationToken v0-v3: list the tokens of some owners, or of all, that the client may see (KIP-48).

Versions: v2 flexible; v3 the requester of each token (KIP-373).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from broker.access.authentication.delegation_tokens import may_ask, owner_and_requester_fields
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from metadata.delegation_tokens import describe_tokens
from protocol.error_codes import ErrorCode
from protocol.messages.describe_delegation_token import (
    DESCRIBE_DELEGATION_TOKEN,
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
)
from protocol.schema import Struct
from security.acl import Operation, ResourceType
from security.delegation_token import token_hmac

if TYPE_CHECKING:
    from broker.access.authentication.delegation_tokens import DelegationTokens
    from broker.access.authorization.guard import Guard
    from broker.metadata_cache import MetadataCache


@handles(DESCRIBE_DELEGATION_TOKEN)
def describe_delegation_token(
    ctx: RequestContext,
    request: Struct,
    *,
    delegation_tokens: DelegationTokens,
    metadata: MetadataCache,
    guard: Guard | None,
) -> Reply:
    if not may_ask(ctx):
        return DESCRIBE_DELEGATION_TOKEN.response(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    secret = delegation_tokens.secret
    if secret is None:
        return DESCRIBE_DELEGATION_TOKEN.response(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)

    def may(operation: Operation, kind: ResourceType, name: str) -> bool:
        return guard is None or guard.may(ctx, operation, kind, name)

    owners = None
    if request.owners is not None:
        owners = [f"{each.principal_type}:{each.principal_name}" for each in request.owners]
    found = describe_tokens(
        metadata.image,
        owners,
        ctx.connection.principal,
        partial(may, Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN),
        partial(may, Operation.DESCRIBE_TOKENS, ResourceType.USER),
    )
    return DESCRIBE_DELEGATION_TOKEN.response(tokens=[_described(ctx.api_version, token, secret) for token in found])


def _described(version: int, token: Struct, secret: str) -> Struct:
    renewers = [each.partition(":") for each in token.renewers]
    return DescribedDelegationToken(
        **owner_and_requester_fields(version, token.owner, token.requester),
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=token_hmac(secret, token.token_id),
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name) for kind, _, name in renewers
        ],
    )
