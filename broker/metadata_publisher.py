"""Apply changes of the metadata in this process, as Kafka's MetadataPublisher.

It hosts new partitions, removes deleted ones, and puts configurations in force. That happens within one turn of the
loop, except for partitions beyond the first few, which follow in the next turns.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from broker.metadata_cache import MetadataCache
from broker.replicas.partitions import Partitions
from config import BrokerConfig
from metadata.delta import Delta
from metadata.image import ResourceType, TopicImage
from runtime.deferred import Deferred
from storage.log.directory import LogDirectory
from storage.log_config import LogConfig

if TYPE_CHECKING:
    from broker.maintenance.move_services import Placements

log = logging.getLogger(__name__)

# New partitions made in one turn of the loop. Each takes some 0.4 ms in system calls, 5 ms while the disk is busy.
HOSTED_PER_TURN = 4


class MetadataPublisher:
    """Keeps the partitions and the configuration of a process in step with the image.

    Args:
        cache: the metadata; its image is changed before `publish` is called.
        partitions: those that this process hosts.
        directory_ids: ids of the log directories, by path.
        call_soon: calls a function in the loop's next turn.
    """

    def __init__(
        self,
        config: BrokerConfig,
        cache: MetadataCache,
        partitions: Partitions,
        placements: Placements,
        directory_ids: Mapping[str, bytes],
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self._cache = cache
        self._config = config
        self._partitions = partitions
        self._recorder = placements
        self._directory_ids = directory_ids
        self._call_soon = call_soon
        self._failed_directories: set[bytes] = set()
        #: Topic id and number of the new partitions that later turns host, in their order.
        self._unhosted: OrderedDict[tuple[bytes, int], None] = OrderedDict()
        self._is_closed = False
        self._await_hosting: list[Deferred[None]] = []
        self._placements: list[tuple[bytes, int, bytes]] = []
        config.subscribe(config.topic_defaults_keys, lambda _: self.refresh_topics())

    # ---- state

    def partition_count(self, name: str) -> int:
        """Return the number of partitions of a topic, 0 until it exists and all of them are hosted."""
        topic = self._cache.image.topic(name)
        if topic is None or any(topic_id == topic.topic_id for topic_id, _ in self._unhosted):
            return 0
        return len(topic.partitions)

    def is_to_be_hosted(self, name: str, index: int) -> bool:
        """Return whether a partition exists that a later turn will host."""
        topic = self._cache.image.topic(name)
        return topic is not None and (topic.topic_id, index) in self._unhosted

    def online_directories(self) -> list[bytes]:
        """Return the ids of the registered log directories that work."""
        registration = self._cache.image.brokers.get(self._config.node_id)
        registered = () if registration is None else registration.log_directories
        return [each for each in registered if each not in self._failed_directories]

    def when_published(self) -> Deferred[None]:
        """Resolve once all partitions of the image are hosted."""
        if not self._unhosted:
            return Deferred.resolved(None)
        self._await_hosting.append(Deferred())
        return self._await_hosting[-1]

    def close(self) -> None:
        """Host nothing more: the logs are about to be closed. The next start hosts the partitions that are left."""
        self._is_closed = True

    # ---- applying

    def host_all(self) -> None:
        """Host all partitions of this process: at the start, before any client."""
        online = self.online_directories()
        for topic in self._cache.image.topics_by_name.values():
            config = self._log_config(topic)
            for index in topic.partitions:
                self._host(topic, index, config, online)
        self._record_placements()

    def directory_failed(self, path: str) -> bool:
        """Note that a log directory no longer works. Return whether the metadata has it.

        A directory that did not work at the start is noted before `host_all`, so that none of its partitions is
        created again elsewhere.
        """
        failed = self._directory_ids.get(path)
        if failed is not None:
            self._failed_directories.add(failed)
        return failed is not None

    def publish(self, delta: Delta) -> None:
        """Apply a change that the image already has."""
        self._cache.changed(delta)
        for topic in delta.deleted_topics:
            self._delete(topic)
        hosting = bool(self._unhosted)
        self._unhosted.update(((topic.topic_id, index), None) for topic, index in delta.created_partitions)
        if not hosting:
            self._host_some()
        for (_, index), topic in delta.changed_partitions.items():
            self._lead(topic, index)
        for resource_type, name in delta.changed_configs:
            self._apply_config(resource_type, name)
            self._cache.config_changed(resource_type, name)

    def _delete(self, topic: TopicImage) -> None:
        """Remove what belongs to a deleted topic, before a new topic of the same name is hosted."""
        self._partitions.delete(topic.name)
        self._cache.topic_deleted(topic)

    def _host_some(self) -> None:
        """Host the next few new partitions: each is a directory whose files have to be created."""
        if self._is_closed:
            return
        for _ in range(min(HOSTED_PER_TURN, len(self._unhosted))):
            (topic_id, index), _ = self._unhosted.popitem(last=False)
            topic = self._cache.image.topic_by_id(topic_id)
            if topic is None:
                continue
            try:
                self._host(topic, index, self._log_config(topic))
            except Exception:  # the other partitions must be hosted, and waiting requests answered
                log.exception("Partition %s-%d cannot be hosted", topic.name, index)
        if self._unhosted:
            self._call_soon(self._host_some)
            return
        self._record_placements()
        waiting, self._await_hosting = self._await_hosting, []
        for deferred in waiting:
            deferred.resolve(None)

    def _log_config(self, topic: TopicImage) -> LogConfig:
        return self._config.log_config(self._cache.image.topic_config(topic.name), topic.name)

    def _host(self, topic: TopicImage, index: int, config: LogConfig, online: Collection[bytes] | None = None) -> None:
        """Host a partition if its replica is here; it is offline if its disk does not work.

        Args:
            online: the directories that work, for a partition that existed before; None for a new one.
        """
        registration = topic.partitions[index]
        node_id = self._config.node_id
        if node_id not in registration.replicas:
            return
        partition = self._partitions.create(
            topic.name,
            topic.topic_id,
            index,
            config,
            leader_epoch=registration.leader_epoch,
            replicas=registration.replicas,
            isr=registration.isr,
            is_new=self._may_be_created(topic, index, online),
        )
        found = self._partitions.directory_of(partition)
        if found is not None and found.is_online:
            self._note_placement(topic, index, found)

    def _may_be_created(self, topic: TopicImage, index: int, online: Collection[bytes] | None) -> bool:
        """Return whether a missing log may be created although a directory has failed, which may have it.

        It may in the directory in which the metadata has it, if that one works; `online` is that of `_host`.
        """
        return online is None or topic.partitions[index].directory_of(self._config.node_id) in online

    def _note_placement(self, topic: TopicImage, index: int, found: LogDirectory) -> None:
        """Note that a log is in another directory than the metadata has it."""
        registration = topic.partitions[index]
        directory = registration.directory_of(self._config.node_id)
        if registration.directories:
            placed = self._directory_ids.get(found.path, directory)
            if placed != directory:
                self._placements.append((topic.topic_id, index, placed))

    def _record_placements(self) -> None:
        """Report in which of several directories partitions were created."""
        if self._placements:
            placed, self._placements = self._placements, []
            self._recorder.record_placements(placed)

    def _lead(self, topic: TopicImage, index: int) -> None:
        """Take over a partition's new leader epoch."""
        partition = self._partitions.get(topic.name, index)
        registration = topic.partitions.get(index)
        if partition is not None and registration is not None and registration.leader == self._config.node_id:
            self._partitions.lead(partition, registration.leader_epoch)

    def _apply_config(self, resource_type: int, name: str) -> None:
        if resource_type == ResourceType.TOPIC:
            if (topic := self._cache.image.topic(name)) is not None:
                self._refresh(topic)
        elif resource_type == ResourceType.BROKER and name in ("", str(self._config.node_id)):
            self.apply_broker_config()

    def apply_broker_config(self) -> None:
        """Put the dynamic configuration of this broker in force."""
        image = self._cache.image
        self._config.apply_dynamic(
            image.config(ResourceType.BROKER, ""), image.config(ResourceType.BROKER, str(self._config.node_id))
        )

    def refresh_topics(self) -> None:
        """Apply the configuration of all topics: the broker's, which has their defaults, has changed."""
        for topic in self._cache.image.topics_by_name.values():
            self._refresh(topic)

    def _refresh(self, topic: TopicImage) -> None:
        self._partitions.update_config(topic.name, self._log_config(topic))
