"""The leaders of partitions that other brokers lead, for answers that save clients a Metadata request (KIP-951)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metadata.partition_registration import NO_LEADER

if TYPE_CHECKING:
    from broker.metadata_cache import MetadataCache
    from broker.replicas.partitions import Partitions


class CurrentLeaders:
    """The leaders by the metadata. A node alone leads all partitions."""

    def __init__(self, node_id: int, metadata: MetadataCache, partitions: Partitions) -> None:
        self._node_id = node_id
        self._metadata = metadata
        self._partitions = partitions

    def other_leader(self, topic: str | None, partition: int) -> tuple[int, int] | None:
        """Return (id, leader epoch) of the broker that leads a partition, if it is another one.

        Return None also while no broker leads it, and while this broker follows the change that makes it the leader.
        """
        if topic is None or not self._partitions.is_elsewhere(topic, partition):
            return None
        found = self._metadata.image.topics_by_name[topic].partitions[partition]
        return None if found.leader in (NO_LEADER, self._node_id) else (found.leader, found.leader_epoch)
