"""Apply the metadata of a cluster in a member: it hosts the partitions whose only replica is here."""

from __future__ import annotations

from collections.abc import Collection

from broker.metadata_publisher import MetadataPublisher
from metadata.image import TopicImage
from storage.log_config import LogConfig


class MemberPublisher(MetadataPublisher):
    """Clients of a partition that is not hosted here get NOT_LEADER_OR_FOLLOWER, and ask for its leader."""

    def _host(self, topic: TopicImage, index: int, config: LogConfig, online: Collection[bytes] | None = None) -> None:
        if topic.partitions[index].replicas == (self._config.node_id,):
            super()._host(topic, index, config, online)
        else:
            self._partitions.note_remote(topic.name, topic.topic_id, index)
