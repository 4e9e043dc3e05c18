"""A limit on the bytes of replication in one direction: what leaders send, or what followers fetch (KIP-73).

It holds back replicas that are not in sync, of the partitions that a topic's configuration names: `*` for all, or
`partition:broker` pairs. Replicas in sync always pass, and their bytes count.

The rate is measured as by Kafka's SimpleRate: the bytes of the last windows, over the time since the oldest of them or
one window. Any amount may pass while the rate is not above the limit; so one large batch passes, and the next one waits
for longer, but not longer than its window counts.
"""

from __future__ import annotations

import re
from collections import deque

UNLIMITED = (1 << 63) - 1
_ALL = "*"
#: A partition, and a broker that has a replica of it.
_PAIR = re.compile(r"([0-9]{1,10}):([0-9]{1,10})")


class ReplicationThrottle:
    """One direction of one broker. Times are ms of one monotonic clock.

    Args:
        node_id: this broker, whose pairs count.
        window_ms: replication.quota.window.size.seconds.
        windows: replication.quota.window.num.
    """

    def __init__(self, node_id: int, window_ms: int = 1000, windows: int = 11) -> None:
        self._node_id = node_id
        self._window_ms = window_ms
        self._counted_ms = windows * window_ms
        self._rate = UNLIMITED
        #: The windows that count: when each began, and its bytes.
        self._windows: deque[tuple[int, int]] = deque()
        #: By topic: its throttled partitions, None for all.
        self._partitions: dict[str, frozenset[int] | None] = {}

    @property
    def rate(self) -> int:
        """Bytes per second. A change keeps what was counted."""
        return self._rate

    def set_rate(self, rate: int) -> None:
        """Change the rate. Bytes that passed while there was no limit do not count."""
        if self._rate == UNLIMITED:
            self._windows.clear()
        self._rate = rate

    def set_replicas(self, topic: str, replicas: str) -> None:
        """Take over a topic's list of throttled replicas: `*`, or pairs with commas between. Others are left out."""
        if replicas.strip() == _ALL:
            self._partitions[topic] = None
            return
        pairs = [_PAIR.fullmatch(each.strip()) for each in replicas.split(",")]
        own = frozenset(int(each[1]) for each in pairs if each is not None and int(each[2]) == self._node_id)
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
        self._forget(now_ms)
        if not self._windows or now_ms - self._windows[-1][0] >= self._window_ms:
            self._windows.append((now_ms, 0))
        began_ms, counted = self._windows[-1]
        self._windows[-1] = began_ms, counted + size_bytes

    def wait_ms(self, now_ms: int) -> int:
        """Return the ms until the rate is not above the limit; 0 if a replica that is not in sync may continue."""
        if self._rate == UNLIMITED:
            return 0
        self._forget(now_ms)
        at_ms, rate = now_ms, max(self._rate, 1)
        counted = sum(size_bytes for _, size_bytes in self._windows)
        for began_ms, size_bytes in self._windows:
            if counted * 1000 <= rate * self._window_ms:
                break
            passes_ms, forgotten_ms = began_ms - (-counted * 1000 // rate), began_ms + self._counted_ms
            if passes_ms <= forgotten_ms:
                at_ms = max(at_ms, passes_ms)
                break
            at_ms, counted = forgotten_ms, counted - size_bytes
        return at_ms - now_ms

    def _forget(self, now_ms: int) -> None:
        """Leave windows out that are too old to count."""
        while self._windows and now_ms - self._windows[0][0] >= self._counted_ms:
            self._windows.popleft()
