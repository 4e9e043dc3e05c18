"""Which address a client is told for a broker: the one advertised for the listener on which the client came in
(KIP-103).

Where neither advertised.listeners nor a fixed listener host is set, a client is told the address that it has reached
us at: what it could connect to once it can connect to again, be it localhost or a machine's name in the LAN.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.dispatch import RequestContext


@dataclass(frozen=True, slots=True)
class Node:
    """A broker as the client of one listener sees it."""

    node_id: int
    host: str
    port: int
    rack: str | None
    fenced: bool


def nodes(ctx: RequestContext, *, include_fenced: bool = False) -> Iterator[Node]:
    """The brokers that the client can reach by the listener it came in on; in ascending order.

    This one is told as what it is now, unless it was unregistered.
    """
    config = ctx.broker.config
    brokers = ctx.broker.controller.image.brokers
    for broker_id in sorted(brokers):
        if broker_id == config.node_id:
            host, port = _own_address(ctx)
            yield Node(broker_id, host, port, config.rack, fenced=False)
            continue
        registration = brokers[broker_id]
        if registration.fenced and not include_fenced:
            continue
        for endpoint in registration.endpoints:
            if endpoint.name == ctx.connection.listener_name:
                yield Node(broker_id, endpoint.host, endpoint.port, registration.rack, registration.fenced)


def controller_id(ctx: RequestContext) -> int:
    """The broker to which clients send what a controller has to decide: this one, or -1 when it was unregistered."""
    node_id = ctx.broker.config.node_id
    return node_id if node_id in ctx.broker.controller.image.brokers else -1


def _own_address(ctx: RequestContext) -> tuple[str, int]:
    connection = ctx.connection
    advertised = ctx.broker.config.advertised(connection.listener_name)
    if advertised is None:
        return connection.local_host, connection.local_port
    return advertised.host or connection.local_host, advertised.port or connection.local_port
