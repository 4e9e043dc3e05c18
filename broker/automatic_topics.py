"""Topics that are created on first use: internal topics, and those of auto.create.topics.enable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from broker.metadata_cache import MetadataCache
from broker.metadata_publisher import MetadataPublisher
from metadata.create_topics import NewTopicResult
from metadata.decision import Admit, unlimited
from metadata.image import NO_CONFIGS
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from broker.requests.context import ClientConnection


class TopicCreator(Protocol):
    """Creates topics by the rules for internal and automatic ones: the controller, or the way to it."""

    def auto_create(
        self, names: Iterable[str], admit: Admit = unlimited, configs: Mapping[str, str] = NO_CONFIGS
    ) -> Deferred[list[NewTopicResult]]:
        """Create topics. Failures are logged, because no client waits. `admit` may refuse the partitions of each."""


class AutomaticTopics:
    """Creates topics when this process first uses them.

    Args:
        when_published: resolves once all metadata changes so far are applied.
    """

    def __init__(
        self,
        cache: MetadataCache,
        publisher: MetadataPublisher,
        creator: TopicCreator,
        when_published: Callable[[], Deferred[None]],
    ) -> None:
        self._cache = cache
        self._publisher = publisher
        self._creator = creator
        self._when_published = when_published

    def create(self, names: Iterable[str], admit: Admit = unlimited, client: ClientConnection | None = None) -> None:
        """Create topics without waiting. `admit` may refuse the partitions of each. `client` is the one to use them."""
        self._creator.auto_create(names, admit)

    def partition_count(self, name: str) -> int:
        """Return the number of partitions of a topic, 0 until it exists and all of them are hosted."""
        return self._publisher.partition_count(name)

    def ensure(self, name: str, configs: Mapping[str, str] = NO_CONFIGS) -> Deferred[bool]:
        """Create a topic, with these settings, if it does not exist. Resolves to whether it exists then."""
        image = self._cache.image
        if image.topic(name) is None:
            return self._creator.auto_create([name], configs=configs).then(lambda _: image.topic(name) is not None)
        if self._publisher.partition_count(name):
            return Deferred.resolved(True)
        return self._when_published().then(lambda _: True)
