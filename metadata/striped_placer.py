"""Chooses the brokers of new partitions: in stripes over racks and brokers, live ones first.

Consecutive partitions have their first replicas in consecutive racks, and the other replicas in the racks behind it.
Within a rack they take turns among the brokers, whose order is random. After as many partitions as there are live
brokers the order is drawn again, so that the same brokers do not always follow each other. The algorithm is that of
Apache Kafka's StripedReplicaPlacer (KIP-36, KIP-631).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")

RandomBelow: TypeAlias = Callable[[int], int]
"""Returns a number from 0 up to its argument, exclusively."""


class UsableBroker(NamedTuple):
    """A broker that may have replicas. A fenced one may not lead now."""

    broker_id: int
    rack: str | None
    fenced: bool


class _Turns:
    """Brokers of one rack that take turns: each gets a replica before one gets a second in the same epoch."""

    def __init__(self) -> None:
        self.brokers: list[int] = []
        self._epoch = 0
        self._index = 0
        self._offset = 0

    def next(self, epoch: int) -> int | None:
        """Return the next broker for this epoch (partition); None if it has all of them."""
        if not self.brokers:
            return None
        if self._epoch != epoch:
            self._epoch = epoch
            self._index = 0
            self._offset = (self._offset + 1) % len(self.brokers)
        if self._index >= len(self.brokers):
            return None
        broker = self.brokers[(self._index + self._offset) % len(self.brokers)]
        self._index += 1
        return broker

    def begin(self, random_below: RandomBelow) -> None:
        self.brokers.sort()
        self._offset = random_below(len(self.brokers)) if self.brokers else 0


class _Rack:
    def __init__(self) -> None:
        self.live = _Turns()
        self.fenced = _Turns()

    def next(self, epoch: int) -> int | None:
        broker = self.live.next(epoch)
        return self.fenced.next(epoch) if broker is None else broker

    def begin(self, random_below: RandomBelow) -> None:
        self.fenced.begin(random_below)
        self.live.begin(random_below)

    def shuffle(self, random_below: RandomBelow) -> None:
        _shuffle(self.fenced.brokers, random_below)
        _shuffle(self.live.brokers, random_below)


def _shuffle(items: list[T], random_below: RandomBelow) -> None:
    for size in range(len(items), 1, -1):
        other = random_below(size)
        items[size - 1], items[other] = items[other], items[size - 1]


class StripedPlacer:
    """Places the partitions of one request. At least one of the brokers is live."""

    def __init__(self, brokers: Iterable[UsableBroker], random_below: RandomBelow) -> None:
        racks: dict[str | None, _Rack] = {}
        self._live_count = 0
        for broker in brokers:
            rack = racks.setdefault(broker.rack, _Rack())
            (rack.fenced if broker.fenced else rack.live).brokers.append(broker.broker_id)
            self._live_count += not broker.fenced
        self._by_name = [racks[name] for name in sorted(racks, key=lambda name: (name is not None, name or ""))]
        self._racks = list(self._by_name)
        self._random_below = random_below
        self._epoch = 0
        for rack in self._by_name:
            rack.begin(random_below)
        self._offset = random_below(len(self._racks))

    def _shuffle(self) -> None:
        _shuffle(self._racks, self._random_below)
        for rack in self._by_name:
            rack.shuffle(self._random_below)

    def place(self, replication_factor: int) -> tuple[int, ...]:
        """Return the replicas of the next partition. There are at least that many brokers."""
        if self._epoch == self._live_count > 1:
            self._shuffle()
            self._epoch = 0
        count = len(self._racks)
        self._offset %= count
        first, leader = self._first()
        replicas = [leader]
        rack = self._offset
        skips_first = True
        while len(replicas) < replication_factor:
            if skips_first and rack == first:
                skips_first = False
            elif (broker := self._racks[rack].next(self._epoch)) is not None:
                replicas.append(broker)
            rack = (rack + 1) % count
        self._epoch += 1
        self._offset += 1
        return tuple(replicas)

    def _first(self) -> tuple[int, int]:
        """Return the rack of the first replica, which is on a live broker, and the broker."""
        rack = self._offset
        while (broker := self._racks[rack].live.next(self._epoch)) is None:
            rack = (rack + 1) % len(self._racks)
        return rack, broker
