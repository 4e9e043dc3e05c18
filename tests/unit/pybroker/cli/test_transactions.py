"""Detection of hanging transactions."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition

from pybroker.cli import topics, transactions

MINUTE_MS = 60_000


class Cluster:
    """Replaces a client: partitions with active producers, and the coordinators' transactions."""

    def __init__(self) -> None:
        self.producers: dict[tuple[str, int], list[Any]] = {("orders", 0): [], ("orders", 1): []}
        self.transactions: dict[str, tuple[int, set[TopicPartition]]] = {}

    def remember(self, partition: int, producer_id: int, minutes: float, start_offset: int = 5) -> None:
        """Add a producer whose last record has this age."""
        self.producers["orders", partition].append(
            SimpleNamespace(
                producer_id=producer_id,
                producer_epoch=0,
                last_timestamp=int(time.time() * 1000 - minutes * MINUTE_MS),
                current_transaction_start_offset=start_offset,
            )
        )

    def ask(self, method: str, asked: Any = None, about: str = "", **filters: Any) -> Any:
        if method == "describe_producers":
            return {place: SimpleNamespace(active_producers=self.producers[tuple(place)]) for place in asked}
        if method == "list_transactions":
            found = [
                SimpleNamespace(transactional_id=name, producer_id=producer_id)
                for name, (producer_id, _) in self.transactions.items()
                if producer_id in filters["producer_id_filters"]
            ]
            return {1: found}
        assert method == "describe_transactions"
        return {name: SimpleNamespace(topic_partitions=self.transactions[name][1]) for name in asked}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()
    session = SimpleNamespace(administration=lambda: nullcontext(made))
    monkeypatch.setattr("pybroker.cli.client.session.Session", lambda options: session)
    of_two = SimpleNamespace(name="orders", partitions=[SimpleNamespace(id=0), SimpleNamespace(id=1)])
    monkeypatch.setattr(topics, "describe_all", lambda session: [of_two])
    monkeypatch.setattr(topics, "describe", lambda session, names: [of_two])
    return made


def hanging(capsys: pytest.CaptureFixture[str], *options: str) -> list[tuple[int, int]]:
    """Return partition and producer of each hanging transaction."""
    assert transactions.main(["find-hanging", "--json", *options]) == 0
    rows = map(json.loads, capsys.readouterr().out.splitlines())
    return [(row["partition"], row["producer_id"]) for row in rows]


def test_transaction_unknown_to_its_coordinator_hangs(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    """No coordinator knows the producer, or its transaction has other partitions."""
    cluster.remember(0, producer_id=7, minutes=60)
    cluster.remember(0, producer_id=8, minutes=60)
    cluster.remember(1, producer_id=8, minutes=60)
    cluster.transactions["shop"] = (8, {TopicPartition("orders", 0)})
    assert hanging(capsys) == [(0, 7), (1, 8)]
    assert hanging(capsys, "--topic", "orders", "--partition", "1") == [(1, 8)]


def test_closed_and_young_transactions_do_not_hang(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    """The coordinator has five minutes beyond the longest timeout."""
    cluster.remember(0, producer_id=7, minutes=60, start_offset=-1)
    cluster.remember(0, producer_id=8, minutes=19)
    cluster.remember(0, producer_id=9, minutes=21)
    assert hanging(capsys) == [(0, 9)]
    assert hanging(capsys, "--max-transaction-timeout", "17") == []


def test_missing_partition_is_an_error(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert transactions.main(["find-hanging", "--topic", "orders", "--partition", "2"]) == 1
    assert capsys.readouterr().err == "pybroker transactions: orders: there is no partition 2\n"
