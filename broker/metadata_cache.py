"""The metadata of the cluster in this process: Kafka's MetadataCache.

Look-ups by name or id are attributes and methods of `image`, such as `topics_by_name` and `topic_by_id`
(metadata/image.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import ParamSpec

from metadata.delta import Delta
from metadata.image import MetadataImage, TopicImage

log = logging.getLogger(__name__)

P = ParamSpec("P")


class MetadataCache:
    """The image, and the listeners of its changes.

    `image` is changed in place by the process's controller or metadata follower, and is never replaced. A listener that
    fails keeps no other listener from its call.
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
        _call_each(self._change_listeners, delta)

    def topic_deleted(self, topic: TopicImage) -> None:
        """Call the listeners of deletions."""
        _call_each(self._deletion_listeners, topic)

    def config_changed(self, resource_type: int, name: str) -> None:
        """Call the listeners of configurations."""
        _call_each(self._config_listeners, resource_type, name)


def _call_each(listeners: Iterable[Callable[P, None]], *args: P.args, **kwargs: P.kwargs) -> None:
    """Call all listeners. A failure of one is logged: the others, and the partitions, follow the change."""
    for callback in listeners:
        try:
            callback(*args, **kwargs)
        except Exception:
            log.exception("A part of the broker cannot follow a change of the metadata")
