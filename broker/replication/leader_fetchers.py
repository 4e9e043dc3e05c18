"""Which partition is fetched from which broker. Kafka's ReplicaFetcherManager.

There is a connection for each leader and fetcher number (num.replica.fetchers). A partition has the number that it has
in Apache Kafka, which depends on its topic's name and its index.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from broker.replication.followed_log import LocalFollowedLog
from broker.replication.leader_fetcher import LeaderClient, LeaderFetcher
from metadata.partition_registration import NO_LEADER
from protocol.java_order import java_hash
from replication.following import Fetcher, FetchLimits, Followed, Throttle
from replication.observing import Endpoint
from replication.partition_key import PartitionKey
from runtime.clock import Clock
from runtime.timers import Timers


class _Wanted(NamedTuple):
    log: LocalFollowedLog
    leader: int
    leader_epoch: int


class _Connected(NamedTuple):
    endpoint: Endpoint
    fetcher: LeaderFetcher


class LeaderFetchers:
    """All partitions that this broker follows.

    Args:
        broker_epoch: returns the epoch of this broker's registration.
        endpoint_of: returns the address of a broker's inter-broker listener, or None if it is not registered.
        connect: returns a client of a broker, for the fetcher with this number; None without an address.
        throttle: the limit of fetched bytes, which all fetchers share.
    """

    def __init__(
        self,
        node_id: int,
        broker_epoch: Callable[[], int],
        endpoint_of: Callable[[int], Endpoint | None],
        connect: Callable[[int, int], LeaderClient | None],
        clock: Clock,
        timers: Timers,
        limits: FetchLimits,
        fetchers: int = 1,
        throttle: Throttle | None = None,
    ) -> None:
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._endpoint_of = endpoint_of
        self._connect = connect
        self._clock = clock
        self._timers = timers
        self._limits = limits
        self._count = fetchers
        self._throttle = throttle
        self._wanted: dict[PartitionKey, _Wanted] = {}
        self._connected: dict[tuple[int, int], _Connected] = {}

    def __len__(self) -> int:
        return len(self._wanted)

    def follow(self, key: PartitionKey, log: LocalFollowedLog, leader: int, leader_epoch: int) -> None:
        """Fetch a partition from its leader, and from no other broker any more. NO_LEADER: from nobody."""
        before = self._wanted.get(key)
        if before is not None and before.leader != leader:
            self.stop(key)
        if leader == NO_LEADER:
            return
        self._wanted[key] = _Wanted(log, leader, leader_epoch)
        fetcher = self._fetcher(leader, self._number(log.topic, key[1]))
        if fetcher is not None:
            fetcher.add(key, log, leader_epoch)

    def state(self, key: PartitionKey) -> tuple[str, Followed] | None:
        """Return Apache Kafka's name of the fetcher of a partition, and its state; None while it is not fetched."""
        wanted = self._wanted.get(key)
        if wanted is None:
            return None
        number = self._number(wanted.log.topic, key[1])
        connected = self._connected.get((wanted.leader, number))
        followed = None if connected is None else connected.fetcher.followed(key)
        return None if followed is None else (f"ReplicaFetcherThread-{number}-{wanted.leader}", followed)

    def rates(self) -> list[float]:
        """Return the fetches a second of each fetcher, since it connected."""
        return [each.fetcher.rate(self._clock.monotonic_ms()) for each in self._connected.values()]

    def stop(self, key: PartitionKey) -> None:
        """Fetch a partition no longer. A connection without partitions is closed."""
        wanted = self._wanted.pop(key, None)
        if wanted is None:
            return
        at = wanted.leader, self._number(wanted.log.topic, key[1])
        connected = self._connected.get(at)
        if connected is not None:
            connected.fetcher.remove(key)
            if not len(connected.fetcher):
                self._disconnect(at)

    def brokers_changed(self) -> None:
        """Connect again to leaders that have other addresses now, or have only been registered since."""
        for at, (endpoint, _) in list(self._connected.items()):
            if self._endpoint_of(at[0]) != endpoint:
                self._disconnect(at)
        for key, (log, leader, leader_epoch) in self._wanted.items():
            if self._state_is_missing(key):
                fetcher = self._fetcher(leader, self._number(log.topic, key[1]))
                if fetcher is not None:
                    fetcher.add(key, log, leader_epoch)

    def resize(self, fetchers: int) -> None:
        """Fetch with another number of connections to each leader. Every partition goes on where its log ends."""
        if fetchers != self._count:
            for at in list(self._connected):
                self._disconnect(at)
            self._count = fetchers
            self.brokers_changed()

    def close(self) -> None:
        """Close all connections."""
        self._wanted.clear()
        for at in list(self._connected):
            self._disconnect(at)

    def _state_is_missing(self, key: PartitionKey) -> bool:
        wanted = self._wanted[key]
        connected = self._connected.get((wanted.leader, self._number(wanted.log.topic, key[1])))
        return connected is None or connected.fetcher.followed(key) is None

    def _number(self, topic: str, index: int) -> int:
        return fetcher_number(topic, index, self._count)

    def _fetcher(self, leader: int, number: int) -> LeaderFetcher | None:
        connected = self._connected.get((leader, number))
        if connected is not None:
            return connected.fetcher
        endpoint = self._endpoint_of(leader)
        client = self._connect(leader, number)
        if endpoint is None or client is None:
            return None  # `brokers_changed` comes with its registration
        fetcher = LeaderFetcher(
            self._node_id,
            leader,
            self._broker_epoch,
            client,
            self._clock,
            self._timers,
            Fetcher(self._node_id, self._broker_epoch(), self._limits, self._throttle),
        )
        self._connected[leader, number] = _Connected(endpoint, fetcher)
        return fetcher

    def _disconnect(self, at: tuple[int, int]) -> None:
        self._connected.pop(at).fetcher.close()


def fetcher_number(topic: str, index: int, fetchers: int) -> int:
    """Return the number of a partition's fetcher: Kafka's AbstractFetcherManager.getFetcherId."""
    value = (31 * java_hash(topic) + index) & 0xFFFFFFFF
    distance = min(value, 2**32 - value)  # Math.abs of a signed number
    return (0 if distance == 2**31 else distance) % fetchers
