"""The limits of replication, by the metadata: of what leaders send and of what followers fetch (KIP-73)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from config.keys import DYNAMIC_ONLY_KEYS
from metadata.image import ResourceType
from replication.throttle import UNLIMITED, ReplicationThrottle

if TYPE_CHECKING:
    from config import BrokerConfig
    from metadata.delta import Delta
    from metadata.image import MetadataImage
    from replication.partition_key import PartitionKey

LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
LEADER_REPLICAS, FOLLOWER_REPLICAS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"


class ReplicationThrottles:
    """Both directions. They follow the dynamic configuration of this broker, of all brokers, and of topics."""

    def __init__(self, config: BrokerConfig, image: MetadataImage) -> None:
        self._node_id = config.node_id
        self._image = image
        window_ms = config.get_int("replication.quota.window.size.seconds") * 1000
        windows = config.get_int("replication.quota.window.num")
        self.leader = ReplicationThrottle(self._node_id, window_ms, windows)
        self.follower = ReplicationThrottle(self._node_id, window_ms, windows)
        self._take_rates()
        for name in image.topics_by_name:
            self._take_topic(name)

    def follow(self, delta: Delta) -> None:
        """Take over a change of the image."""
        for kind, name in delta.changed_configs:
            if kind == ResourceType.BROKER:
                self._take_rates()
            elif kind == ResourceType.TOPIC:
                self._take_topic(name)
        for topic in delta.deleted_topics:
            if self._image.topic(topic.name) is None:
                self._take_topic(topic.name)

    def _take_rates(self) -> None:
        for throttle, key in ((self.leader, LEADER_RATE), (self.follower, FOLLOWER_RATE)):
            rate = self._rate(key)
            if rate != throttle.rate:
                throttle.set_rate(rate)

    def _rate(self, key: str) -> int:
        for name in (str(self._node_id), ""):
            text = self._image.config(ResourceType.BROKER, name).get(key)
            rate = None if text is None else DYNAMIC_ONLY_KEYS[key].read(text)  # controllers take any text
            if isinstance(rate, int):
                return rate
        return UNLIMITED

    def _take_topic(self, name: str) -> None:
        config = self._image.config(ResourceType.TOPIC, name)
        for throttle, key in ((self.leader, LEADER_REPLICAS), (self.follower, FOLLOWER_REPLICAS)):
            throttle.set_replicas(name, config.get(key, ""))


class FollowerThrottle:
    """The limit of followers for partitions that are named by topic id (`replication.following.Throttle`)."""

    def __init__(self, throttle: ReplicationThrottle, image: MetadataImage) -> None:
        self._throttle = throttle
        self._image = image

    @property
    def is_active(self) -> bool:
        return self._throttle.is_active

    def applies(self, key: PartitionKey) -> bool:
        topic = self._image.topic_by_id(key[0])
        return topic is not None and self._throttle.applies(topic.name, key[1])

    def record(self, size_bytes: int, now_ms: int) -> None:
        self._throttle.record(size_bytes, now_ms)

    def wait_ms(self, now_ms: int) -> int:
        return self._throttle.wait_ms(now_ms)
