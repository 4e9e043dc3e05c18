"""Envelope v0: serve a client's request that a broker forwards, with the rights of the client (KIP-590)."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from broker.requests.context import RequestContext
from broker.requests.served_api import Reply
from protocol.error_codes import ErrorCode, ProtocolError
from protocol.messages.data import DefaultPrincipalData
from protocol.messages.envelope import ENVELOPE
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.controlling.enveloped_requests import EnvelopedRequests

_PRINCIPAL_VERSION = 0


def envelope(ctx: RequestContext, request: Struct, *, enveloped: EnvelopedRequests) -> Reply:
    try:
        principal, by_token = _principal(request.request_principal)
    except (ProtocolError, ValueError):
        return ENVELOPE.response(error_code=ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE)
    try:
        host = str(ipaddress.ip_address(bytes(request.client_host_address)))
    except ValueError:
        return ENVELOPE.response(error_code=ErrorCode.INVALID_REQUEST)
    return enveloped.serve(ctx.connection, bytes(request.request_data), principal, host, by_token=by_token)


def _principal(data: bytes | memoryview | None) -> tuple[str, bool]:
    """Return the principal, such as User:alice, and whether a delegation token has authenticated it.

    Raises ProtocolError, and ValueError for a missing principal and an unknown version.
    """
    if data is None or len(data) < 2:
        raise ValueError("no principal")
    data = bytes(data)
    if int.from_bytes(data[:2], "big") != _PRINCIPAL_VERSION:
        raise ValueError("unknown version")
    fields = DefaultPrincipalData.decode(_PRINCIPAL_VERSION, data[2:])[0]
    return f"{fields.type}:{fields.name}", fields.token_authenticated
