"""What group coordinators see of the cluster: the image of its metadata, and settings of groups over the broker's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from coordinator.group.cluster import ConsumerGroupConfig, ShareGroupConfig, StreamsGroupConfig, Topic
from metadata.image import ResourceType, TopicImage
from metadata.replay import Delta

if TYPE_CHECKING:
    from broker.config import BrokerConfig
    from broker.controller import Controller

#: In the order of ConsumerGroupConfig; a group's own have no "group." in front.
_CONSUMER_KEYS = (
    "group.consumer.session.timeout.ms",
    "group.consumer.heartbeat.interval.ms",
    "group.consumer.assignment.interval.ms",
)
#: In the order of ShareGroupConfig.
_SHARE_KEYS = (
    "group.share.session.timeout.ms",
    "group.share.heartbeat.interval.ms",
    "group.share.assignment.interval.ms",
)
#: In the order of StreamsGroupConfig.
_STREAMS_KEYS = (
    "group.streams.session.timeout.ms",
    "group.streams.heartbeat.interval.ms",
    "group.streams.assignment.interval.ms",
    "group.streams.initial.rebalance.delay.ms",
    "group.streams.num.standby.replicas",
)


class ClusterView:
    """A `coordinator.group.cluster.Cluster`. Versions are offsets of the metadata log."""

    def __init__(self, controller: Controller, config: BrokerConfig) -> None:
        self._controller = controller
        self._config = config
        self.topics_version = self.new_topics_version = controller.last_offset
        controller.on_change(self._follow)

    def _follow(self, delta: Delta) -> None:
        if delta.created_partitions or delta.deleted_topics or delta.changed_partitions:
            self.topics_version = self._controller.last_offset
        if delta.created_partitions:
            self.new_topics_version = self._controller.last_offset

    @property
    def version(self) -> int:
        return self._controller.last_offset

    def topic(self, name: str) -> Topic | None:
        found = self._controller.image.topic(name)
        return None if found is None else self._seen(found)

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        found = self._controller.image.topic_by_id(topic_id)
        return None if found is None else self._seen(found)

    def topic_names(self) -> Iterable[str]:
        return self._controller.image.topics_by_name.keys()

    def _seen(self, topic: TopicImage) -> Topic:
        racks = {node_id: broker.rack for node_id, broker in self._controller.image.brokers.items() if broker.rack}
        if not racks:
            return Topic(topic.name, topic.topic_id, len(topic.partitions))
        of_partitions = (
            tuple(sorted(racks[node_id] for node_id in topic.partitions[index].replicas if node_id in racks))
            for index in range(len(topic.partitions))
        )
        return Topic(topic.name, topic.topic_id, len(topic.partitions), tuple(of_partitions))

    def consumer_config(self, group_id: str) -> ConsumerGroupConfig:
        return ConsumerGroupConfig(*self._group_settings(group_id, _CONSUMER_KEYS))

    def streams_config(self, group_id: str) -> StreamsGroupConfig:
        return StreamsGroupConfig(*self._group_settings(group_id, _STREAMS_KEYS))

    def share_config(self, group_id: str) -> ShareGroupConfig:
        return ShareGroupConfig(*self._group_settings(group_id, _SHARE_KEYS))

    def _group_settings(self, group_id: str, keys: Iterable[str]) -> list[int]:
        own = self._controller.image.config(ResourceType.GROUP, group_id)
        names = ((key, key.removeprefix("group.")) for key in keys)
        return [int(own[name]) if name in own else self._config.get_int(key) for key, name in names]
