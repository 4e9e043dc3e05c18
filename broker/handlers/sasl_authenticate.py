"""SaslAuthenticate v0-v2: a step of an authentication, which is refused on a connection that is authenticated already.

Versions: v1 session lifetime (KIP-368). Before that it never gets here: `broker.access.authentication` serves
connections until they are authenticated.
"""

from __future__ import annotations

from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from protocol.errors import ErrorCode
from protocol.messages.sasl_authenticate import SASL_AUTHENTICATE
from protocol.schema import Struct


@handles(SASL_AUTHENTICATE)
def sasl_authenticate(_: RequestContext, __: Struct) -> Reply:
    return SASL_AUTHENTICATE.response(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )
