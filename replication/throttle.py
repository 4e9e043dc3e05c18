"""A limit on the bytes of replication in one direction: what leaders send, or what followers fetch (KIP-73).

It holds back replicas that are not in sync, of the partitions that a topic's configuration names: `*` for all, or
`partition:broker` pairs. Replicas in sync always pass, and their bytes count.

A token bucket: the rate is added each second, up to that of one burst. Any amount may be taken while no bytes are owed;
so one large batch passes, and the next one waits for longer.
"""

from __future__ import annotations

UNLIMITED = (1 << 63) - 1
_ALL = "*"


class ReplicationThrottle:
    """One direction of one broker. Times are ms of one monotonic clock.

    Args:
        node_id: this broker, whose pairs count.
        burst_ms: the time whose tokens are kept at most.
    """

    def __init__(self, node_id: int, burst_ms: int = 1000) -> None:
        self._node_id = node_id
        self._burst_ms = burst_ms
        self._rate = UNLIMITED
        self._tokens = 0.0
        self._at_ms = 0
        #: By topic: its throttled partitions, None for all.
        self._partitions: dict[str, frozenset[int] | None] = {}

    @property
    def rate(self) -> int:
        """Bytes per second. A change keeps what is owed."""
        return self._rate

    def set_rate(self, rate: int, now_ms: int) -> None:
        """Change the rate. Bytes that passed while there was no limit are not owed."""
        if self._rate == UNLIMITED:
            self._tokens = 0.0
        else:
            self._refill(now_ms)
        self._rate, self._at_ms = rate, now_ms

    def set_replicas(self, topic: str, replicas: str) -> None:
        """Take over a topic's list of throttled replicas, which was validated: `*`, or pairs with commas between."""
        if replicas.strip() == _ALL:
            self._partitions[topic] = None
            return
        pairs = [each.strip().partition(":") for each in replicas.split(",") if each.strip()]
        own = frozenset(int(index) for index, _, broker in pairs if int(broker) == self._node_id)
        if own:
            self._partitions[topic] = own
        else:
            self._partitions.pop(topic, None)

    @property
    def is_active(self) -> bool:
        """Whether there is a limit, and a replica that it may hold back."""
        return bool(self._partitions) and self._rate != UNLIMITED

    def applies(self, topic: str, index: int) -> bool:
        """Return whether the partition is throttled here."""
        partitions = self._partitions.get(topic, frozenset())
        return partitions is None or index in partitions

    def record(self, size_bytes: int, now_ms: int) -> None:
        """Count bytes of a throttled partition."""
        self._refill(now_ms)
        self._tokens -= size_bytes

    def wait_ms(self, now_ms: int) -> int:
        """Return the ms until no bytes are owed; 0 if a replica that is not in sync may continue."""
        if self._rate == UNLIMITED:
            return 0
        self._refill(now_ms)
        return 0 if self._tokens >= 0 else int(-self._tokens * 1000 / max(self._rate, 1)) + 1

    def _refill(self, now_ms: int) -> None:
        if self._rate != UNLIMITED:
            added = (now_ms - self._at_ms) * self._rate / 1000
            self._tokens = min(self._tokens + added, self._rate * self._burst_ms / 1000)
        self._at_ms = now_ms
