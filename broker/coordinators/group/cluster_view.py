"""The cluster as group coordinators see it: the metadata image, and groups' settings with the broker's as defaults."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol, TypeVar

from config.resources import group_list, group_number
from coordinator.group.cluster import ConsumerGroupConfig, ShareGroupConfig, StreamsGroupConfig, Topic
from metadata.delta import Delta
from metadata.image import ResourceType, TopicImage

if TYPE_CHECKING:
    from collections.abc import Hashable

    from broker.metadata_cache import MetadataCache
    from config import BrokerConfig

K = TypeVar("K", bound="Hashable")
V = TypeVar("V")

#: Cached entries of each kind.
AT_HAND = 8192

#: In the order of ConsumerGroupConfig. Group-level settings have no "group." prefix.
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
#: In the order of StreamsGroupConfig, without the tags.
_STREAMS_KEYS = (
    "group.streams.session.timeout.ms",
    "group.streams.heartbeat.interval.ms",
    "group.streams.assignment.interval.ms",
    "group.streams.initial.rebalance.delay.ms",
    "group.streams.num.standby.replicas",
    "group.streams.acceptable.recovery.lag",
    "group.streams.task.offset.interval.ms",
)
_STREAMS_TAGS = "group.streams.rack.aware.assignment.tags"


class BoundedCache(dict[K, V]):
    """A cache of the results of `find`, emptied when it is full.

    It is a plain dictionary: many groups ask in turn, and an LRU cache would update shared links at every look-up.
    """

    def __init__(self, find: Callable[[K], V]) -> None:
        self._find = find

    def __missing__(self, key: K) -> V:
        if len(self) >= AT_HAND:
            self.clear()
        value = self[key] = self._find(key)
        return value


class MetadataProgress(Protocol):
    """How far this process has followed the metadata log."""

    @property
    def last_offset(self) -> int:
        """The offset of the last record in the image."""


class ClusterView:
    """The view that implements `coordinator.group.cluster.Cluster`. Versions are offsets of the metadata log.

    Every heartbeat needs settings, and every step of a member needs its topics. The results are cached until the
    metadata or the broker's configuration changes.
    """

    def __init__(self, metadata: MetadataCache, controller: MetadataProgress, config: BrokerConfig) -> None:
        self._image = metadata.image
        self._controller = controller
        self._config = config
        self._forget: list[Callable[[], None]] = []
        self.topics_version = self.new_topics_version = controller.last_offset
        self.topic = self._kept(self._find_topic)
        self.topic_by_id = self._kept(self._find_topic_by_id)
        self.consumer_config = self._kept(self._read_consumer_config)
        self.streams_config = self._kept(self._read_streams_config)
        self.share_config = self._kept(self._read_share_config)
        metadata.on_change(self._follow)
        config.subscribe((*_CONSUMER_KEYS, *_STREAMS_KEYS, *_SHARE_KEYS), lambda _: self._forget_all())

    def _kept(self, find: Callable[[K], V]) -> Callable[[K], V]:
        kept = BoundedCache(find)
        self._forget.append(kept.clear)
        return kept.__getitem__

    def _forget_all(self) -> None:
        for forget in self._forget:
            forget()

    def _follow(self, delta: Delta) -> None:
        self._forget_all()
        if delta.created_partitions or delta.deleted_topics or delta.changed_partitions:
            self.topics_version = self._controller.last_offset
        if delta.created_partitions:
            self.new_topics_version = self._controller.last_offset

    @property
    def version(self) -> int:
        return self._controller.last_offset

    def topic_names(self) -> Iterable[str]:
        return self._image.topics_by_name.keys()

    def _find_topic(self, name: str) -> Topic | None:
        found = self._image.topic(name)
        return None if found is None else self._seen(found)

    def _find_topic_by_id(self, topic_id: bytes) -> Topic | None:
        found = self._image.topic_by_id(topic_id)
        return None if found is None else self._seen(found)

    def _seen(self, topic: TopicImage) -> Topic:
        racks = {node_id: broker.rack for node_id, broker in self._image.brokers.items() if broker.rack}
        if not racks:
            return Topic(topic.name, topic.topic_id, len(topic.partitions))
        of_partitions = (
            tuple(sorted(racks[node_id] for node_id in topic.partitions[index].replicas if node_id in racks))
            for index in range(len(topic.partitions))
        )
        return Topic(topic.name, topic.topic_id, len(topic.partitions), tuple(of_partitions))

    def _read_consumer_config(self, group_id: str) -> ConsumerGroupConfig:
        return ConsumerGroupConfig(*self._group_settings(group_id, _CONSUMER_KEYS))

    def _read_streams_config(self, group_id: str) -> StreamsGroupConfig:
        own = self._image.config(ResourceType.GROUP, group_id)
        tags = group_list(self._config, own, _STREAMS_TAGS.removeprefix("group."))
        session, beat, assignment, delay, standbys, lag, offsets = self._group_settings(group_id, _STREAMS_KEYS)
        return StreamsGroupConfig(session, beat, assignment, delay, standbys, lag, offsets, tags)

    def _read_share_config(self, group_id: str) -> ShareGroupConfig:
        return ShareGroupConfig(*self._group_settings(group_id, _SHARE_KEYS))

    def _group_settings(self, group_id: str, keys: Iterable[str]) -> list[int]:
        own = self._image.config(ResourceType.GROUP, group_id)
        return [group_number(self._config, own, key.removeprefix("group.")) for key in keys]
