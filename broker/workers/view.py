"""What clients see of partitions: the worker in the place of the node, as which the metadata knows all workers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from broker.process.placement import worker_of
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.broker import Broker
    from config import BrokerConfig

_LISTS_OF_IDS = ("replica_nodes", "isr_nodes", "offline_replicas", "eligible_leader_replicas", "last_known_elr")


def show_workers(config: BrokerConfig, topic: str, partitions: Iterable[Struct]) -> None:
    """Put the ids of workers into what Metadata and DescribeTopicPartitions say of a topic's partitions."""
    node_id, count = config.node_id, config.num_workers
    for each in partitions:
        worker = worker_of(topic, each.partition_index, count)
        if not worker:
            continue
        if each.leader_id == node_id:
            each.leader_id += worker
        for name in _LISTS_OF_IDS:
            ids = getattr(each, name, None)
            if ids:
                setattr(each, name, [one + worker if one == node_id else one for one in ids])


def leader_elsewhere(broker: Broker, topic: str | None, partition: int) -> tuple[int, int] | None:
    """Which worker leads a partition that another process has, and in which epoch (KIP-951); else None."""
    if topic is None or not broker.partitions.is_elsewhere(topic, partition):
        return None
    config = broker.config
    found = broker.controller.image.topics_by_name[topic].partitions[partition]
    return config.node_id + worker_of(topic, partition, config.num_workers), found.leader_epoch


def ids_meant(config: BrokerConfig, topic: str, partition: int, seen: Sequence[int]) -> tuple[int, ...]:
    """The replicas of a partition in the metadata's terms, from those that a client speaks of.

    Its own worker is the node. The node's id is another worker then, to which it cannot go: no broker that there is.
    """
    node_id = config.node_id
    seen_id = node_id + worker_of(topic, partition, config.num_workers)
    meant = {seen_id: node_id, node_id: seen_id}
    return tuple(meant.get(each, each) for each in seen)
