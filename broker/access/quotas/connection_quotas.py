"""The rate of new connections from one address (KIP-612): quotas of single addresses, and of all others.

A connection above the quota is accepted, and closed after the excess time: an immediate retry gains nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

from broker.access.quotas.addresses import numeric, resolved
from broker.access.quotas.rate import Rate
from metadata.client_quotas import CONNECTION_CREATION_RATE, IP

if TYPE_CHECKING:
    from broker.network.server import AddressQuotas
    from config import BrokerConfig
    from metadata.delta import Delta
    from metadata.image import MetadataImage
    from runtime.clock import Clock
    from runtime.deferred import Deferred
    from runtime.thread_pool import ThreadPool

#: The number of addresses that are remembered.
_MOST = 10_000


class LimitedServer(Protocol):
    """The server that accepts connections."""

    connection_quotas: AddressQuotas | None


class ConnectionQuotas:
    """All addresses' quotas. Sets `server.connection_quotas` to itself while there are any, else to None."""

    def __init__(
        self, config: BrokerConfig, image: MetadataImage, server: LimitedServer, clock: Clock, dns_threads: ThreadPool
    ) -> None:
        self._image = image
        self._server = server
        self._clock = clock
        self._dns_threads = dns_threads
        self._window_ms = config.get_int("quota.window.size.seconds") * 1000
        self._new_rate = partial(Rate, window_count=config.get_int("quota.window.num"), window_ms=self._window_ms)
        self._quotas: Mapping[str | None, float] = {}  # by name, None for any address
        self._hosts: Mapping[str, str] = {}  # their addresses, of those that were looked up
        self._bounds: Mapping[str, float] = {}  # by address
        self._made: dict[str, Rate] = {}
        self._load()

    def on_change(self, delta: Delta) -> None:
        """Take over changed quotas from the metadata."""
        if delta.changed_quotas:
            self._load()

    def _load(self) -> None:
        quotas = {
            entity[0][1]: values[CONNECTION_CREATION_RATE]
            for entity, values in self._image.client_quotas.items()
            if entity[0][0] == IP and CONNECTION_CREATION_RATE in values
        }
        if quotas == self._quotas:
            return
        self._quotas = quotas
        self._server.connection_quotas = self if quotas else None
        if not quotas:
            self._made.clear()
        self._set_bounds()
        hosts = frozenset(name for name in quotas if name is not None and numeric(name) is None)
        if hosts:
            self._dns_threads(resolved, hosts).add_done_callback(partial(self._set_hosts, quotas))

    def _set_hosts(self, quotas: Mapping[str | None, float], found: Deferred[dict[str, str]]) -> None:
        """Look hosts up. They keep the address that they have when quotas are set or the broker starts."""
        if quotas is self._quotas:  # otherwise they have changed, and another look-up has begun
            known = {**self._hosts, **found.result()}
            self._hosts = {name: address for name, address in known.items() if name in quotas}
            self._set_bounds()

    def _set_bounds(self) -> None:
        """Combine the quotas. That of an address itself overrides that of a host with the address."""
        named = [(name, bound) for name, bound in self._quotas.items() if name is not None]
        bounds = {self._hosts[name]: bound for name, bound in named if name in self._hosts}
        self._bounds = bounds | {address: bound for name, bound in named if (address := numeric(name)) is not None}

    def wait_ms(self, address: str) -> int:
        """Count a new connection and return 0 if it is allowed; else return the wait in milliseconds."""
        bound = self._bounds.get(address, self._quotas.get(None))
        if bound is None:
            return 0
        rate = self._made.get(address)
        if rate is None:
            if len(self._made) >= _MOST:
                del self._made[next(iter(self._made))]
            rate = self._made[address] = self._new_rate(bound)
        rate.bound = bound  # it may have been altered
        now_ms = self._clock.monotonic_ms()
        wait_ms = min(rate.record(1, now_ms), self._window_ms)
        if wait_ms:
            rate.record(-1, now_ms)
        return wait_ms
