"""Apply changes of the metadata to what a controller serves: access rules, users, quotas, dynamic settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metadata.image import ResourceType
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from broker.metadata_cache import MetadataCache
    from config import BrokerConfig
    from metadata.delta import Delta


class ControllerPublisher:
    """Keeps a controller in step with the image, which is changed before `publish` is called."""

    def __init__(self, config: BrokerConfig, cache: MetadataCache) -> None:
        self._config = config
        self._cache = cache

    def publish(self, delta: Delta) -> None:
        """Apply a change that the image already has."""
        self._cache.changed(delta)
        for topic in delta.deleted_topics:
            self._cache.topic_deleted(topic)
        for resource_type, name in delta.changed_configs:
            if resource_type == ResourceType.BROKER and name in ("", str(self._config.node_id)):
                self.apply_settings()
            self._cache.config_changed(resource_type, name)

    def apply_settings(self) -> None:
        """Put the dynamic settings of all nodes, and of this one, in force."""
        image = self._cache.image
        own = image.config(ResourceType.BROKER, str(self._config.node_id))
        self._config.apply_dynamic(image.config(ResourceType.BROKER, ""), own)

    def when_published(self) -> Deferred[None]:
        """Resolve at once: nothing is applied later."""
        return Deferred.resolved(None)
