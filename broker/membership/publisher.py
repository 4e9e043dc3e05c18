"""Apply the metadata of a cluster in a member: it leads and follows the partitions of which it has a replica."""

from __future__ import annotations

from collections.abc import Collection

from broker.membership.replication import MemberReplication
from broker.metadata_publisher import MetadataPublisher
from metadata.delta import Delta
from metadata.image import TopicImage
from metadata.partition_registration import (
    LOST_DIRECTORY,
    MIGRATING_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    PartitionRegistration,
)
from storage.log_config import LogConfig


class MemberPublisher(MetadataPublisher):
    """Clients of a partition that is not led here get NOT_LEADER_OR_FOLLOWER, and ask for its leader.

    A partition that has only ever had this broker as its replica is served as on a single node.
    """

    replication: MemberReplication

    def publish(self, delta: Delta) -> None:
        super().publish(delta)
        self.replication.replicas.moves.report()
        if delta.changed_brokers:
            self.replication.fetchers.brokers_changed()

    def _delete(self, topic: TopicImage) -> None:
        super()._delete(topic)
        self.replication.replicas.delete(topic.topic_id)

    def _host(self, topic: TopicImage, index: int, config: LogConfig, online: Collection[bytes] | None = None) -> None:
        registration, key = topic.partitions[index], (topic.topic_id, index)
        is_new = self._may_be_created(topic, index, online) and not self._partitions.is_missing(*key)
        if self._is_alone(topic, index):
            super()._host(topic, index, config, online)
            partition = self._partitions.get(topic.name, index)
            found = None if partition is None else self._partitions.directory_of(partition)
        else:
            found = self.replication.replicas.apply(topic.name, *key, registration, config, is_new=is_new)
            if found is not None:  # also a failed one: the controller then moves the leader
                self._note_placement(topic, index, found)
        if found is None and not is_new and self._relies_on_lost(registration):
            self._placements.append((*key, LOST_DIRECTORY))  # its log is in the failed or missing directory

    def _may_be_created(self, topic: TopicImage, index: int, online: Collection[bytes] | None) -> bool:
        """Return whether a missing log may be created although a directory has failed, which may have it.

        It may if the replica is new here, or if nobody relies on its records. An empty log would else lead in place of
        the one in the failed directory: the metadata has the target of a move before the log is there.
        """
        registration, node_id = topic.partitions[index], self._config.node_id
        key = topic.topic_id, index
        is_known = self.replication.replicas.knows(key) or self._partitions.get_by_id(*key) is not None
        is_new_here = online is None and not is_known
        if self._is_placed_online(registration):
            return is_new_here or not registration.relies_on(node_id)
        is_unplaced = registration.directory_of(node_id) in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY)
        return is_new_here and (is_unplaced or registration.replicas == (node_id,))

    def _relies_on_lost(self, registration: PartitionRegistration) -> bool:
        """Return whether the controller believes that a replica which this broker cannot find is online."""
        return registration.relies_on(self._config.node_id) and self._is_placed_online(registration)

    def _is_placed_online(self, registration: PartitionRegistration) -> bool:
        return registration.directory_of(self._config.node_id) in self.online_directories()

    def _is_alone(self, topic: TopicImage, index: int) -> bool:
        key = topic.topic_id, index
        return topic.partitions[index].replicas == (self._config.node_id,) and not self.replication.replicas.knows(key)

    def _lead(self, topic: TopicImage, index: int) -> None:
        """Take over any change of a partition. One that a later turn will host has its last state then.

        The topic may have been deleted since: then its replicas are gone, and its name may be another topic's.
        """
        is_deleted = self._cache.image.topic_by_id(topic.topic_id) is None
        if is_deleted or self.is_to_be_hosted(topic.name, index) or index not in topic.partitions:
            return
        if self._is_alone(topic, index):
            super()._lead(topic, index)
        else:
            self._host(topic, index, self._log_config(topic))
            self._record_placements()

    def _refresh(self, topic: TopicImage) -> None:
        super()._refresh(topic)
        self.replication.replicas.configure(topic.topic_id, self._log_config(topic))
