"""`pybroker topics describe`: selection of partitions, and ids."""

from __future__ import annotations

import base64

from confluent_kafka import Node, TopicPartitionInfo, Uuid

from pybroker.cli.topics import id_text, select_partitions


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


def test_ids_have_the_form_of_kafka() -> None:
    """URL-safe Base64 without padding."""
    halves = (-1 << 32 | 5, -7)
    text = base64.urlsafe_b64encode(b"".join(half.to_bytes(8, "big", signed=True) for half in halves)).decode()

    assert id_text(Uuid(*halves)) == text.rstrip("=") == "_____wAAAAX_________-Q"
