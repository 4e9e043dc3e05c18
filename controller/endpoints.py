"""Listeners of the configuration as endpoints of the metadata."""

from __future__ import annotations

from config import Listener
from metadata.image import Endpoint

SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


def endpoints(listeners: tuple[Listener, ...]) -> list[Endpoint]:
    """Return the endpoints of listeners. The host of one that is bound to all addresses is localhost."""
    return [
        Endpoint(each.name, each.host or "localhost", each.port, SECURITY_PROTOCOLS[each.security_protocol])
        for each in listeners
    ]
