"""End offsets of partitions, whichever process leads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from broker.replicas.partitions import Partitions
from coordinator.group.refused import Refused
from runtime.deferred import Deferred
from storage.checkpoints import TopicPartition


class EndOffsets(Protocol):
    """High watermarks of all partitions of this broker."""

    @property
    def known_ends(self) -> Mapping[TopicPartition, int]:
        """High watermarks in other brokers, as of the last `learn_ends`."""

    def end_offset(self, topic: str, partition: int) -> Deferred[int]:
        """Resolve to the high watermark of a partition.

        Fails with Refused if no process has it or its process does not answer, and with the storage's errors.
        """

    def learn_ends(self, places: Iterable[TopicPartition]) -> Deferred[None]:
        """Resolve once `known_ends` has the values that other brokers report soon for these partitions."""


class PartitionEndOffsets:
    """End offsets in a broker with one process, which has all partitions."""

    known_ends: Mapping[TopicPartition, int] = {}

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    def end_offset(self, topic: str, partition: int) -> Deferred[int]:
        """Return a Deferred that is already resolved or failed."""
        ended: Deferred[int] = Deferred()
        found = self._partitions.get(topic, partition)
        try:
            if found is None:
                raise Refused(self._partitions.absence(topic, partition))
            ended.resolve(found.high_watermark)
        except Exception as error:
            ended.fail(error)
        return ended

    def learn_ends(self, places: Iterable[TopicPartition]) -> Deferred[None]:
        """Do nothing: there is no other process."""
        return Deferred.resolved(None)
