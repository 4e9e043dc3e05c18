"""Which address a client is told for a broker: the one advertised for the listener on which the client came in
(KIP-103).

Where neither advertised.listeners nor a fixed listener host is set, a client is told the address that it has reached
us at: what it could connect to once it can connect to again, be it in the LAN or on this machine. The latter is told
as localhost, if that is it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

import msgspec

from broker.network.loopback import name_of

if TYPE_CHECKING:
    from broker.requests.context import ClientConnection
    from broker.requests.dispatcher import RequestContext
    from config import BrokerConfig
    from protocol.schema import Struct, StructType


class Node(msgspec.Struct, frozen=True):
    """A broker as the client of one listener sees it."""

    node_id: int
    host: str
    port: int
    rack: str | None
    fenced: bool


def nodes(ctx: RequestContext, *, include_fenced: bool = False) -> Iterator[Node]:
    """The brokers that the client can reach by the listener it came in on; in ascending order.

    This one is told as what it is now, unless it was unregistered: each worker as a broker.
    """
    config = ctx.broker.config
    brokers = ctx.broker.controller.image.brokers
    for broker_id in sorted(brokers):
        if broker_id == config.node_id:
            for worker in range(config.num_workers):
                host, port = _address(ctx, worker)
                yield Node(broker_id + worker, host, port, config.rack, fenced=False)
            continue
        registration = brokers[broker_id]
        if registration.fenced and not include_fenced:
            continue
        for endpoint in registration.endpoints:
            if endpoint.name == ctx.connection.listener_name:
                yield Node(broker_id, endpoint.host, endpoint.port, registration.rack, registration.fenced)


def endpoints_of(ctx: RequestContext, kind: StructType, ids: Collection[int]) -> list[Struct]:
    """Where these brokers are to be reached, beside an answer that names them as leaders (KIP-951)."""
    return [
        kind(node_id=each.node_id, host=each.host, port=each.port, rack=each.rack)
        for each in nodes(ctx)
        if each.node_id in ids
    ]


def controller_id(ctx: RequestContext) -> int:
    """The broker to which clients send what a controller has to decide: this one, or -1 when it was unregistered."""
    node_id = ctx.broker.config.node_id
    return node_id if node_id in ctx.broker.controller.image.brokers else -1


def _address(ctx: RequestContext, worker: int) -> tuple[str, int]:
    """Where a worker of this broker is to be reached: the next ones on the ports after the first one's."""
    connection = ctx.connection
    advertised = ctx.broker.config.advertised(connection.listener_name)
    host = advertised.host if advertised is not None else None
    if advertised is not None and advertised.port:
        port = advertised.port + worker
    elif ctx.broker.config.num_workers == 1:
        port = connection.local_port
    else:
        port = ctx.broker.ports[connection.listener_name][worker]
    return host or _name_of(connection, ctx.broker.config), port


def _name_of(connection: ClientConnection, config: BrokerConfig) -> str:
    opened = next((each.host for each in config.listeners if each.name == connection.listener_name), None)
    return name_of(connection.local_host, opened)
