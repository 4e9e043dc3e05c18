"""`pybroker topics describe`: selection of partitions, and ids."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import cast

import pytest
from confluent_kafka import KafkaError, Node, TopicPartitionInfo, Uuid
from confluent_kafka.admin import TopicDescription

from pybroker.cli import topics
from pybroker.cli.client.errors import CommandError
from pybroker.cli.client.session import Session
from pybroker.cli.reassign import Move
from pybroker.cli.topics import id_text, partitions_without_added, select_partitions, with_leader


def test_unhealthy_partitions_are_selected() -> None:
    """Those without one of their replicas, or without a leader."""
    nodes = [Node(id, "h", 1) for id in (1, 2)]
    healthy = TopicPartitionInfo(0, nodes[0], nodes, nodes)
    behind = TopicPartitionInfo(1, nodes[0], nodes, nodes[:1])
    offline = TopicPartitionInfo(2, None, nodes, nodes)
    partitions = [healthy, behind, offline]

    assert select_partitions(partitions, None) == partitions
    assert select_partitions(partitions, "--under-replicated-partitions") == [behind]
    assert select_partitions(partitions, "--unavailable-partitions") == [offline]
    assert select_partitions(partitions, "--under-min-isr-partitions", 2) == [behind, offline]
    assert select_partitions(partitions, "--at-min-isr-partitions", 2) == [healthy, offline]
    assert with_leader(partitions) == [0, 1]


def test_replicas_that_are_being_added_are_not_missing() -> None:
    """As kafka-topics: a partition that moves lacks a replica only if one of today's is out of sync."""
    nodes = [Node(id, "h", 1) for id in (1, 2, 3)]
    moving = TopicPartitionInfo(0, nodes[0], nodes, nodes[:2])
    behind = TopicPartitionInfo(1, nodes[0], nodes, nodes[:1])
    topic = SimpleNamespace(name="t", partitions=[moving, behind])
    added = {("t", 0): [3], ("t", 1): [3]}

    assert partitions_without_added(topic, {}) == [moving, behind]  # type: ignore[arg-type]
    assert partitions_without_added(topic, added) == [behind]  # type: ignore[arg-type]


def test_ids_have_the_form_of_kafka() -> None:
    """URL-safe Base64 without padding."""
    halves = (-1 << 32 | 5, -7)
    text = base64.urlsafe_b64encode(b"".join(half.to_bytes(8, "big", signed=True) for half in halves)).decode()

    assert id_text(Uuid(*halves)) == text.rstrip("=") == "_____wAAAAX_________-Q"


def added(monkeypatch: pytest.MonkeyPatch, isr: int, error: CommandError | None) -> dict[tuple[str, int], list[int]]:
    """Return the replicas that a move adds to a partition of three replicas, `isr` of them in sync."""
    nodes = [Node(id, "h", 1) for id in (1, 2, 3)]
    topic = SimpleNamespace(name="t", partitions=[TopicPartitionInfo(0, nodes[0], nodes, nodes[:isr])])

    @contextmanager
    def administration() -> Iterator[None]:
        if error is not None:
            raise error
        yield None

    monkeypatch.setattr(topics, "moves", lambda _: {("t", 0): Move([1, 2, 3], [3], [])})
    session = SimpleNamespace(administration=administration)
    return topics.added_replicas(cast(Session, session), cast("list[TopicDescription]", [topic]))


def test_no_controller_is_asked_while_all_replicas_are_in_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a majority of controllers, the answer takes as long as the client waits."""
    assert added(monkeypatch, 3, CommandError("nobody may ask")) == {}
    assert added(monkeypatch, 2, None) == {("t", 0): [3]}


@pytest.mark.parametrize(("code", "is_reported"), [(KafkaError.CLUSTER_AUTHORIZATION_FAILED, False), (7, True)])
def test_moves_that_no_controller_tells_are_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], code: int, is_reported: bool
) -> None:
    """The right to see them is no trouble, as for kafka-topics; a time-out is."""
    assert added(monkeypatch, 2, CommandError("Request timed out", code)) == {}
    assert ("reassignments are unknown" in capsys.readouterr().err) is is_reported
