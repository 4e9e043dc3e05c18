"""SaslHandshake v0-v1: begin to re-authenticate a connection that is authenticated (KIP-368).

Before a connection is authenticated, `broker.access.authentication` serves its requests.
"""

from __future__ import annotations

from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from protocol.error_codes import ErrorCode
from protocol.messages.sasl_handshake import SASL_HANDSHAKE
from protocol.schema import Struct


@handles(SASL_HANDSHAKE)
def sasl_handshake(ctx: RequestContext, request: Struct) -> Reply:
    authenticator = ctx.connection.authenticator
    begun = None if authenticator is None else authenticator.reauthenticate(ctx.api_version, request.mechanism)
    return begun or SASL_HANDSHAKE.response(error_code=ErrorCode.ILLEGAL_SASL_STATE)
