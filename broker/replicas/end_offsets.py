"""Where partitions end, whichever process leads them."""

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
        """High watermarks in other processes, as of the last `learn_ends`."""

    def end_offset(self, topic: str, partition: int) -> Deferred[int]:
        """Resolves to the high watermark of a partition.

        Fails with Refused where no process has it or its process does not answer, and with the storage's errors.
        """

    def learn_ends(self, places: Iterable[TopicPartition]) -> Deferred[None]:
        """Resolves once `known_ends` has those of these partitions that other processes report soon."""


class PartitionEndOffsets:
    """End offsets where one process has all partitions."""

    known_ends: Mapping[TopicPartition, int] = {}

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    def end_offset(self, topic: str, partition: int) -> Deferred[int]:
        """Resolved, or failed, at once."""
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
        """There is no other process."""
        return Deferred.resolved(None)
