"""`pybroker topics describe`: selection of partitions, and ids."""

from __future__ import annotations

import base64
from types import SimpleNamespace

from confluent_kafka import Node, TopicPartitionInfo, Uuid

from pybroker.cli.topics import id_text, partitions_without_added, select_partitions


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
