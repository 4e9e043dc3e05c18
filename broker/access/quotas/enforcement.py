"""Quotas are on the way of requests and connections while there are any, and as they were last altered."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from broker.access.quotas.client_quotas import ClientQuotas
from broker.access.quotas.connection_quotas import ConnectionQuotas

if TYPE_CHECKING:
    from broker.broker import Broker
    from metadata.image import MetadataImage


def enforce_quotas(broker: Broker, image: MetadataImage) -> None:
    """Those of clients by the dispatcher, those of addresses by the server."""
    of_clients = ClientQuotas(broker.config, image, broker.clock, partial(setattr, broker.dispatcher, "quotas"))
    of_addresses = ConnectionQuotas(broker.config, image, broker.server, broker.clock, broker.lookups)
    broker.metadata.on_change(of_clients.on_change)
    broker.metadata.on_change(of_addresses.on_change)
