"""The page about replicas: brokers that are away, partitions that lack replicas, moves."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError

from console.cluster import replicas as module
from console.cluster.client import Client
from console.cluster.replicas import Replicas, replicas
from pybroker.cli.client.errors import CommandError
from pybroker.cli.reassign import Move


def partition(number: int, leader: int, assigned: list[int], isr: list[int]) -> Any:
    return SimpleNamespace(id=number, leader=leader, replicas=assigned, isrs=isr)


TOPICS = {
    "orders": [
        partition(0, 1, [1, 2, 3], [1, 2, 3]),
        partition(1, 2, [2, 3, 1], [2, 1]),
        partition(2, -1, [3], []),
    ],
    "lines": [partition(0, 1, [1, 3], [1])],
}


class FakeClient:
    """Two brokers answer; broker 3 is away."""

    @contextmanager
    def session(self) -> Any:
        nodes = [SimpleNamespace(id=each, host="b", port=9090 + each, rack=f"r{each}") for each in (1, 2)]
        topics = {name: SimpleNamespace(partitions={each.id: each for each in found}) for name, found in TOPICS.items()}
        admin = SimpleNamespace(
            describe_cluster=lambda **_: SimpleNamespace(nodes=nodes),
            list_topics=lambda **_: SimpleNamespace(topics=topics),
        )

        @contextmanager
        def administration() -> Any:
            yield None

        yield SimpleNamespace(admin=admin, wait=lambda found: found, administration=administration)


def shown(monkeypatch: pytest.MonkeyPatch, moves: Any) -> Replicas:
    monkeypatch.setattr(module, "moves", moves)
    return replicas(cast(Client, FakeClient()))


def test_brokers_that_are_away_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = shown(monkeypatch, lambda _: {}).brokers
    assert [(each.id, each.address, each.rack) for each in found] == [
        (1, "b:9091", "r1"),
        (2, "b:9092", "r2"),
        (3, None, None),
    ]
    assert [(each.leads, each.replicas, each.out_of_sync) for each in found] == [(2, 3, 0), (1, 2, 0), (0, 4, 3)]


def test_partitions_without_a_leader_are_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then those with the fewest replicas in sync."""
    found = shown(monkeypatch, lambda _: {})
    assert [(each.topic, each.number) for each in found.lacking] == [("orders", 2), ("lines", 0), ("orders", 1)]
    assert found.lacking_count == 3
    monkeypatch.setattr(module, "MOST_PARTITIONS", 1)
    assert len(shown(monkeypatch, lambda _: {}).lacking) == 1


def test_moves_are_hidden_from_users_without_rights(monkeypatch: pytest.MonkeyPatch) -> None:
    move = Move([1, 2], [2], [])
    assert shown(monkeypatch, lambda _: {("orders", 0): move}).moves == {("orders", 0): move}

    def refuse(_: object) -> None:
        raise CommandError("not authorized", KafkaError.CLUSTER_AUTHORIZATION_FAILED)

    found = shown(monkeypatch, refuse)
    assert (found.moves, found.moves_trouble) == (None, None)


def test_moves_that_no_controller_tells_are_not_called_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that has just died, or controllers without a majority, are not the user's rights."""

    def fail(_: object) -> None:
        raise CommandError("Request timed out", KafkaError.REQUEST_TIMED_OUT)

    found = shown(monkeypatch, fail)
    assert (found.moves, found.moves_trouble) == (None, "Request timed out")
    assert found.lacking_count == 3
