"""Partitions that `pybroker topics describe` is asked for."""

from __future__ import annotations

from confluent_kafka import Node, TopicPartitionInfo

from pybroker.cli.topics import in_trouble


def test_partitions_that_something_is_wrong_with() -> None:
    """Without a replica of theirs, without a leader; a healthy one is only among all."""
    nodes = [Node(id, "h", 1) for id in (1, 2)]
    healthy = TopicPartitionInfo(0, nodes[0], nodes, nodes)
    behind = TopicPartitionInfo(1, nodes[0], nodes, nodes[:1])
    offline = TopicPartitionInfo(2, None, nodes, nodes)
    partitions = [healthy, behind, offline]

    assert in_trouble(partitions, None) == partitions
    assert in_trouble(partitions, "--under-replicated-partitions") == [behind]
    assert in_trouble(partitions, "--unavailable-partitions") == [offline]
