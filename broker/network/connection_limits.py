"""Limits on connections: max.connections, max.connections.per.ip, max.connection.creation.rate (KIP-402, KIP-612).

As in Apache Kafka: a connection from an address at its limit is refused. If a listener is full, or over its rate, its
clients wait in the listen queue. The inter-broker listener, if there are others, accepts connections above
max.connections, and a connection of another listener is closed instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

UNLIMITED = 2**31 - 1


class CreationRate:
    """A limit on connections per second. A burst may use up one second's worth at once."""

    __slots__ = ("_at_ms", "_monotonic_ms", "_tokens", "per_second")

    def __init__(self, per_second: int, monotonic_ms: Callable[[], int]) -> None:
        self.per_second = per_second
        self._monotonic_ms = monotonic_ms
        self._at_ms = monotonic_ms()
        self._tokens = float(per_second)

    def delay_ms(self) -> int:
        """Return 0, and count the connection, if one may be accepted now; else the delay before the next attempt."""
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
        """Undo the count: there was no connection to accept."""
        self._tokens += 1


class ConnectionLimits:
    """Counts open connections by listener and by address, and has their limits, which may change at any time."""

    def __init__(self, protected_listener: str | None = None) -> None:
        """Args: protected_listener: accepts above max.connections; None if there is only one listener."""
        self.protected_listener = protected_listener
        #: The number of connections for which the process has file descriptors.
        self.max_descriptors = UNLIMITED
        self.max_connections = UNLIMITED
        self.max_connections_of_listener: Mapping[str, int] = {}
        self.max_connections_per_ip = UNLIMITED
        self.max_connections_per_ip_overrides: Mapping[str, int] = {}
        self.total = 0
        self._by_listener: Counter[str] = Counter()
        self._by_address: Counter[str] = Counter()

    def listener_is_full(self, listener_name: str) -> bool:
        """Return whether the listener must wait for a connection to end before it accepts another."""
        if self.out_of_descriptors:
            return True
        if self._by_listener[listener_name] >= self.max_connections_of_listener.get(listener_name, UNLIMITED):
            return True
        return listener_name != self.protected_listener and self.total >= self.max_connections

    @property
    def out_of_descriptors(self) -> bool:
        """Return whether another connection would use descriptors that log files need."""
        return self.total >= self.max_descriptors

    @property
    def exceeded(self) -> bool:
        """Return whether the protected listener's connections have brought the total above its limit."""
        return self.total > self.max_connections

    def address_is_full(self, address: str) -> bool:
        """Return whether an address has reached its limit."""
        limit = self.max_connections_per_ip_overrides.get(address, self.max_connections_per_ip)
        return self._by_address[address] >= limit

    def opened(self, listener_name: str, address: str) -> None:
        """Count an opened connection."""
        self.total += 1
        self._by_listener[listener_name] += 1
        self._by_address[address] += 1

    def closed(self, listener_name: str, address: str) -> None:
        """Count a closed connection."""
        self.total -= 1
        self._by_listener[listener_name] -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]
