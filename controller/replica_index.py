"""Partitions by broker, so that a change of one broker looks at its own partitions only.

Kafka's BrokersToIsrs, BrokersToElrs and imbalanced partitions. Only a controller of other brokers has an index: it is
built once from the image, and then follows each change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from metadata.delta import Delta
from metadata.image import MetadataImage, TopicImage
from metadata.partition_registration import NO_LEADER, LeaderRecoveryState, PartitionRegistration
from runtime.deferred import Deferred

Key: TypeAlias = tuple[bytes, int]
"""Topic id and partition."""

Located: TypeAlias = tuple[TopicImage, int, PartitionRegistration]
"""A partition: its topic, its number and its registration."""


class ReplicaIndex:
    """The partitions of each broker, as a publisher of the controller."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._known: dict[Key, PartitionRegistration] = {}
        self._by_broker: dict[int, dict[Key, None]] = {}
        self._led: Counter[int] = Counter()
        #: Elections, since the start, of a leader that was neither in sync nor eligible; and of an eligible one.
        self.unclean_elections = 0
        self.eligible_elections = 0
        #: Partitions without a leader.
        self.leaderless: dict[Key, None] = {}
        #: Partitions whose leader is not the first replica.
        self.unbalanced: dict[Key, None] = {}
        for topic in image.topics_by_name.values():
            for number, partition in topic.partitions.items():
                self._take((topic.topic_id, number), partition)

    # ---- changes

    def publish(self, delta: Delta) -> None:
        """Follow a change that the image already has."""
        for topic, number in delta.created_partitions:
            self._follow((topic.topic_id, number))
        for key in delta.changed_partitions:
            self._follow(key)
        for topic in delta.deleted_topics:
            for number in topic.partitions:
                self._forget((topic.topic_id, number))

    def when_published(self) -> Deferred[None]:
        """Return a resolved Deferred: `publish` has done all."""
        return Deferred.resolved(None)

    def _follow(self, key: Key) -> None:
        topic = self._image.topics_by_id.get(key[0])
        if topic is None:  # the same batch deletes it
            self._forget(key)
            return
        partition, old = topic.partitions[key[1]], self._known.get(key)
        if old is not None and partition.leader not in (old.leader, NO_LEADER):
            self._count_election(old, partition)
        if old is not None and partition[:1] == old[:1] and partition.leader == old.leader:
            self._known[key] = partition
            return
        self._forget(key)
        self._take(key, partition)

    def _count_election(self, old: PartitionRegistration, new: PartitionRegistration) -> None:
        """Count a new leader if it was not in sync. One that joins the in-sync set in the same change was."""
        if new.leader in old.isr:
            return
        if new.leader in old.eligible_leader_replicas:
            self.eligible_elections += 1
        elif new.leader_recovery_state == LeaderRecoveryState.RECOVERING:
            self.unclean_elections += 1

    def _take(self, key: Key, partition: PartitionRegistration) -> None:
        self._known[key] = partition
        for broker_id in partition.replicas:
            self._by_broker.setdefault(broker_id, {})[key] = None
        self._led[partition.leader] += 1
        if partition.leader == NO_LEADER:
            self.leaderless[key] = None
        if not partition.has_preferred_leader:
            self.unbalanced[key] = None

    def _forget(self, key: Key) -> None:
        old = self._known.pop(key, None)
        if old is None:
            return
        for broker_id in old.replicas:
            del self._by_broker[broker_id][key]
        self._led[old.leader] -= 1
        self.leaderless.pop(key, None)
        self.unbalanced.pop(key, None)

    # ---- questions

    def leads(self, broker_id: int) -> bool:
        """Return whether the broker leads a partition."""
        return self._led[broker_id] > 0

    def in_sync_on(self, broker_id: int) -> Iterator[Located]:
        """Yield the partitions that have the broker in their in-sync set."""
        return (each for each in self._located(self._by_broker.get(broker_id, ())) if broker_id in each[2].isr)

    def eligible_on(self, broker_id: int) -> Iterator[Located]:
        """Yield the partitions that have the broker among their eligible leader replicas (KIP-966)."""
        found = self._located(self._by_broker.get(broker_id, ()))
        return (each for each in found if broker_id in each[2].eligible_leader_replicas)

    def in_directory(self, broker_id: int, directory: bytes) -> Iterator[Located]:
        """Yield the partitions that have their replica of the broker in the log directory with this id."""
        found = self._located(self._by_broker.get(broker_id, ()))
        return (each for each in found if each[2].directory_of(broker_id) == directory)

    def without_leader(self) -> Iterator[Located]:
        """Yield the partitions without a leader."""
        return self._located(self.leaderless)

    def with_other_leader(self) -> Iterator[Located]:
        """Yield the partitions whose leader is not their first replica."""
        return self._located(self.unbalanced)

    def _located(self, keys: Iterable[Key]) -> Iterator[Located]:
        for key in keys:
            topic = self._image.topics_by_id[key[0]]
            yield topic, key[1], topic.partitions[key[1]]
