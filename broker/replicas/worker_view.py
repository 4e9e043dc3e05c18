"""The partitions as clients see them: each worker as a broker. In the metadata, all workers are one node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from broker.process.placement import worker_of
from metadata.partition_registration import NO_LEADER
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.metadata_cache import MetadataCache
    from broker.replicas.partitions import Partitions
    from config import BrokerConfig

_LISTS_OF_IDS = ("replica_nodes", "isr_nodes", "offline_replicas", "eligible_leader_replicas", "last_known_elr")


class WorkerView:
    """The view of clients (`broker.requests.client_view`). With one worker, it is the metadata as it is."""

    def __init__(self, config: BrokerConfig, metadata: MetadataCache, partitions: Partitions) -> None:
        self._config = config
        self._metadata = metadata
        self._partitions = partitions

    def show(self, topic: str, partitions: Iterable[Struct]) -> None:
        """Replace the node's id by the id of the worker, in the partitions of a topic in an answer."""
        node_id, count = self._config.node_id, self._config.num_workers
        if count == 1:
            return
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

    def other_leader(self, topic: str | None, partition: int) -> tuple[int, int] | None:
        """Return (id, leader epoch) of the worker or broker that has a partition, if it is another one (KIP-951).

        Otherwise, and while no broker leads it, return None.
        """
        if topic is None or not self._partitions.is_elsewhere(topic, partition):
            return None
        config = self._config
        found = self._metadata.image.topics_by_name[topic].partitions[partition]
        if found.leader != config.node_id:
            return None if found.leader == NO_LEADER else (found.leader, found.leader_epoch)
        if config.num_workers == 1:
            return None  # this broker follows the change that makes it the leader
        return config.node_id + worker_of(topic, partition, config.num_workers), found.leader_epoch

    def ids_meant(self, topic: str, partition: int, seen: Sequence[int]) -> tuple[int, ...]:
        """Return the replicas of a partition as the metadata names them, for the ids that a client sent.

        The id of the partition's own worker stands for the node. The node's id stands for the first worker, which
        cannot have the partition then: it becomes an id that no broker has.
        """
        node_id = self._config.node_id
        seen_id = node_id + worker_of(topic, partition, self._config.num_workers)
        meant = {seen_id: node_id, node_id: seen_id}
        return tuple(meant.get(each, each) for each in seen)
