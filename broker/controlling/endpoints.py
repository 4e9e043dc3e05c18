"""The addresses at which other nodes find the controller listeners."""

from __future__ import annotations

import socket
from collections.abc import Iterable

from broker.network.listener import Listener
from config import BrokerConfig
from controller.endpoints import SECURITY_PROTOCOLS
from metadata.image import Endpoint


def controller_endpoints(config: BrokerConfig, bound: Iterable[Listener]) -> list[Endpoint]:
    """Return the addresses to register. As in Kafka, port 0 is the bound one, and no host is this machine's name.

    Blocks if the name of this machine is looked up.
    """
    ports = {each.name: each.port for each in bound}
    return [
        Endpoint(
            each.name,
            each.host or socket.getfqdn(),
            each.port or ports[each.name],
            SECURITY_PROTOCOLS[each.security_protocol],
        )
        for each in config.listening.advertised_controllers
    ]
