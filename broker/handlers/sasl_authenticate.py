"""SaslAuthenticate v0-v2: refuse another step of SASL on a connection that is authenticated.

Versions: v1 session lifetime (KIP-368). Before a connection is authenticated, `broker.access.authentication` serves its
requests.
"""

from __future__ import annotations

from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from protocol.error_codes import ErrorCode
from protocol.messages.sasl_authenticate import SASL_AUTHENTICATE
from protocol.schema import Struct


@handles(SASL_AUTHENTICATE)
def sasl_authenticate(_: RequestContext, __: Struct) -> Reply:
    return SASL_AUTHENTICATE.response(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )
