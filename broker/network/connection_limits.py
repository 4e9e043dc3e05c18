"""How many connections there may be: max.connections, max.connections.per.ip, max.connection.creation.rate (KIP-402,
KIP-612).

As in Apache Kafka: an address that has its share is turned away; a listener that is full, or too fast, makes its
clients wait in the listen queue; the inter-broker listener, where there are others beside it, is let in above
max.connections, and a connection of another listener goes instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

UNLIMITED = 2**31 - 1


class CreationRate:
    """At most so many connections a second, with one second's worth at once."""

    __slots__ = ("_at_ms", "_monotonic_ms", "_tokens", "per_second")

    def __init__(self, per_second: int, monotonic_ms: Callable[[], int]) -> None:
        self.per_second = per_second
        self._monotonic_ms = monotonic_ms
        self._at_ms = monotonic_ms()
        self._tokens = float(per_second)

    def delay_ms(self) -> int:
        """0 when a connection may be accepted now, and it is counted; else how long to wait before asking again."""
        if self.per_second >= UNLIMITED:
            return 0
        now_ms = self._monotonic_ms()
        self._tokens = min(
            self._tokens + (now_ms - self._at_ms) * self.per_second / 1000, float(max(self.per_second, 1))
        )
        self._at_ms = now_ms
        if self._tokens >= 1:
            self._tokens -= 1
            return 0
        if self.per_second <= 0:
            return 1000
        return max(1, min(1000, round((1 - self._tokens) * 1000 / self.per_second)))

    def give_back(self) -> None:
        """There was no connection to accept after all."""
        self._tokens += 1


class ConnectionLimits:
    """Counts of open connections by listener and by address, and the limits on them. Limits may change at any time."""

    def __init__(self, protected_listener: str | None = None) -> None:
        """Args: protected_listener: let in above max.connections; None where there is only one listener."""
        self.protected_listener = protected_listener
        #: Connections for which the process has descriptors.
        self.max_descriptors = UNLIMITED
        self.max_connections = UNLIMITED
        self.max_connections_of_listener: Mapping[str, int] = {}
        self.max_connections_per_ip = UNLIMITED
        self.max_connections_per_ip_overrides: Mapping[str, int] = {}
        self.total = 0
        self._by_listener: Counter[str] = Counter()
        self._by_address: Counter[str] = Counter()

    def listener_is_full(self, listener_name: str) -> bool:
        """Whether the listener has to wait for a connection to end before it accepts another."""
        if self.out_of_descriptors:
            return True
        if self._by_listener[listener_name] >= self.max_connections_of_listener.get(listener_name, UNLIMITED):
            return True
        return listener_name != self.protected_listener and self.total >= self.max_connections

    @property
    def out_of_descriptors(self) -> bool:
        """Whether another connection would take what log files need."""
        return self.total >= self.max_descriptors

    @property
    def exceeded(self) -> bool:
        """Whether the protected listener's connections have brought the total above its limit."""
        return self.total > self.max_connections

    def address_is_full(self, address: str) -> bool:
        """Whether one more connection from there would be one too many."""
        limit = self.max_connections_per_ip_overrides.get(address, self.max_connections_per_ip)
        return self._by_address[address] >= limit

    def opened(self, listener_name: str, address: str) -> None:
        """Count a connection."""
        self.total += 1
        self._by_listener[listener_name] += 1
        self._by_address[address] += 1

    def closed(self, listener_name: str, address: str) -> None:
        """Count it no more."""
        self.total -= 1
        self._by_listener[listener_name] -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]
