"""Partitions and the connections over which they are fetched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.replication.leader_fetchers import LeaderFetchers, fetcher_number
from replication.following import FetchLimits
from replication.observing import Endpoint
from tests.support.producing import batch
from tests.unit.broker.replication.replica_pair import KEY, ClientOf, ReplicaPair

LEADER = 1


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[ReplicaPair]:
    made = ReplicaPair(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("topic", "index", "fetchers", "number"),
    [
        ("orders", 0, 4, 1),
        ("orders", 1, 4, 0),
        ("__consumer_offsets", 7, 3, 1),
        ("t", 5, 7, 3),
        ("größe-😀", 3, 11, 1),
        ("polygenelubricants", 0, 5, 0),
    ],
)
def test_number_of_a_partition(topic: str, index: int, fetchers: int, number: int) -> None:
    """Of Apache Kafka 4.4's AbstractFetcherManager.getFetcherId. The last hash code is the smallest of Java."""
    assert fetcher_number(topic, index, fetchers) == number


def test_other_number_of_fetchers(pair: ReplicaPair) -> None:
    """The partition moves to its new connection, the former is closed, and records go on to arrive."""
    opened: dict[int, ClientOf] = {}

    def connect(leader: int, number: int) -> ClientOf:
        assert leader == LEADER
        opened[number] = client = ClientOf(pair.leader)
        return client

    fetchers = LeaderFetchers(
        2,
        lambda: 20,
        lambda broker: Endpoint("localhost", 9092),
        connect,
        pair.follower.clock,
        pair.follower.timers,
        FetchLimits(),
    )
    fetchers.follow(KEY, pair.followed, LEADER, 4)
    pair.leader.produce(batch(3), acks=1)
    pair.run()
    assert pair.is_equal()
    number = fetcher_number("t", 0, 5)
    assert number != 0
    fetchers.resize(5)
    pair.leader.produce(batch(3), acks=1)
    pair.run()
    assert pair.is_equal()
    assert (opened.keys(), opened[0].closed, opened[number].closed) == ({0, number}, True, False)
    assert fetchers.state(KEY) is not None
    fetchers.resize(5)
    assert not opened[number].closed
    fetchers.close()
