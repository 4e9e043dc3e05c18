"""Apply the metadata of a cluster in a member: it leads and follows the partitions of which it has a replica."""

from __future__ import annotations

from collections.abc import Collection

from broker.membership.replication import MemberReplication
from broker.metadata_publisher import MetadataPublisher
from metadata.delta import Delta
from metadata.image import TopicImage
from metadata.partition_registration import MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
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
        if self._is_alone(topic, index):
            super()._host(topic, index, config, online)
            return
        registration = topic.partitions[index]
        found = self.replication.replicas.apply(
            topic.name,
            topic.topic_id,
            index,
            registration,
            config,
            is_new=self._may_be_created(topic, index, at_start=online is not None),
        )
        if found is not None:  # also a failed one: the controller then moves the leader
            self._note_placement(topic, index, found)

    def _may_be_created(self, topic: TopicImage, index: int, *, at_start: bool) -> bool:
        """Return whether a missing log may be created although a directory has failed, which may have it.

        It may if the metadata has it in a directory that works, or in none yet and the replica is new here. An empty
        log in another directory would lead in place of the one that is in the failed directory.
        """
        directory = topic.partitions[index].directory_of(self._config.node_id)
        if directory in self.online_directories():
            return True
        is_unplaced = directory in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY)
        return is_unplaced and not at_start and not self.replication.replicas.knows((topic.topic_id, index))

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
