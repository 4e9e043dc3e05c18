"""The metadata of the cluster in this process: Kafka's MetadataCache.

Look-ups by name or id are attributes and methods of `image`, such as `topics_by_name` and `topic_by_id`
(metadata/image.py).
"""

from __future__ import annotations

from collections.abc import Callable

from metadata.delta import Delta
from metadata.image import MetadataImage, TopicImage


class MetadataCache:
    """The image, and the listeners of its changes.

    `image` is changed in place by the process's controller or metadata follower, and is never replaced.
    """

    def __init__(self, cluster_id: str, image: MetadataImage) -> None:
        self.cluster_id = cluster_id
        self.image = image
        self._change_listeners: list[Callable[[Delta], None]] = []
        self._deletion_listeners: list[Callable[[TopicImage], None]] = []
        self._config_listeners: list[Callable[[int, str], None]] = []

    def on_change(self, callback: Callable[[Delta], None]) -> None:
        """Call `callback(delta)` after each change of the image, before the partitions follow it."""
        self._change_listeners.append(callback)

    def on_topic_deleted(self, callback: Callable[[TopicImage], None]) -> None:
        """Call `callback(topic)` after a topic was deleted and its partitions removed."""
        self._deletion_listeners.append(callback)

    def on_config_changed(self, callback: Callable[[int, str], None]) -> None:
        """Call `callback(resource_type, name)` after each change of a resource's configuration."""
        self._config_listeners.append(callback)

    def changed(self, delta: Delta) -> None:
        """Call the listeners of changes."""
        for callback in self._change_listeners:
            callback(delta)

    def topic_deleted(self, topic: TopicImage) -> None:
        """Call the listeners of deletions."""
        for callback in self._deletion_listeners:
            callback(topic)

    def config_changed(self, resource_type: int, name: str) -> None:
        """Call the listeners of configurations."""
        for callback in self._config_listeners:
            callback(resource_type, name)
