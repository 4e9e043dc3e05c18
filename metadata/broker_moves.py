"""The changes of partitions when a broker comes or goes: who stays in sync, and who leads.

One event may concern thousands of partitions, most of them alike: each kind of partition is decided once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from metadata.image import MetadataImage, TopicImage
from metadata.partition_change import Rules, Wanted, change_of, without
from metadata.partition_registration import EPOCHS, NO_LEADER, PartitionRegistration
from metadata.partition_rules import min_isr, possible_leaders, rules_of


class BrokerMoves:
    """Decides the changes for one broker that comes, or for one that goes. The image is that before the event."""

    def __init__(self, image: MetadataImage, broker_id: int, *, comes: bool) -> None:
        self._image = image
        self._broker_id = broker_id
        self._comes = comes
        self._decided: dict[tuple[object, ...], dict[str, Any]] = {}
        self._topic: TopicImage | None = None
        self._min_isr = 1

    def _rules(self, partition: PartitionRegistration) -> Rules:
        may_others_lead = possible_leaders(self._image, partition)

        def may_lead(broker_id: int) -> bool:
            return self._comes if broker_id == self._broker_id else may_others_lead(broker_id)

        return rules_of(self._image, may_lead)

    def fields_of(self, topic: TopicImage, partition: PartitionRegistration) -> dict[str, Any]:
        """Return the fields of a partition's PartitionChangeRecord; empty if nothing changes."""
        if topic is not self._topic:
            self._topic, self._min_isr = topic, min_isr(self._image, topic.name)
        kind = (self._min_isr, partition[: EPOCHS.start], partition[EPOCHS.stop :])
        fields = self._decided.get(kind)
        if fields is None:
            fields = self._decided[kind] = self._decide(partition)
        return fields

    def _decide(self, partition: PartitionRegistration) -> dict[str, Any]:
        if not self._comes:
            wanted = Wanted(isr=without(partition.isr, (self._broker_id,)))
            return change_of(partition, self._min_isr, self._rules(partition), wanted)
        if partition.leader == self._broker_id:  # it crashed: a new epoch shows that records of the old one may be lost
            return {"leader": self._broker_id}
        if partition.leader != NO_LEADER:
            return {}
        return change_of(partition, self._min_isr, self._rules(partition), Wanted())


def replicas_of(image: MetadataImage, broker_id: int) -> Iterator[tuple[TopicImage, int, PartitionRegistration]]:
    """Yield topic, number and registration of each partition with a replica on the broker."""
    for topic in image.topics_by_name.values():
        for index, partition in topic.partitions.items():
            if broker_id in partition.replicas:
                yield topic, index, partition
