"""Enforces the current quotas of clients and addresses."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from broker.access.quotas.client_quotas import ClientQuotas
from broker.access.quotas.connection_quotas import ConnectionQuotas

if TYPE_CHECKING:
    from broker.metadata_cache import MetadataCache
    from broker.network.server import Server
    from broker.requests.dispatcher import Dispatcher
    from config import BrokerConfig
    from runtime.clock import Clock
    from runtime.thread_pool import ThreadPool


def enforce_quotas(
    config: BrokerConfig,
    metadata: MetadataCache,
    clock: Clock,
    dispatcher: Dispatcher,
    server: Server,
    dns_threads: ThreadPool,
) -> None:
    """Have the dispatcher enforce the quotas of clients, and the server those of addresses.

    `dns_threads` finds the addresses of hosts that have quotas.
    """
    of_clients = ClientQuotas(config, metadata.image, clock, partial(setattr, dispatcher, "quotas"))
    of_addresses = ConnectionQuotas(config, metadata.image, server, clock, dns_threads)
    metadata.on_change(of_clients.on_change)
    metadata.on_change(of_addresses.on_change)
