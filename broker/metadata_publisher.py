"""Hosting: the partitions and the configuration of a process, kept as the metadata has them.

What has changed in the image is carried out: partitions are made or removed, configurations put in force. That happens
within one turn of the loop, but for partitions beyond the first few, which follow in the next turns.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from broker.workers.placement import OWNER, worker_of
from config import BrokerConfig
from metadata.create_topics import NewTopicResult
from metadata.decision import Admit, unlimited
from metadata.image import MetadataImage, ResourceType, TopicImage
from metadata.replay import Delta
from runtime.deferred import Deferred
from storage.log_config import LogConfig

if TYPE_CHECKING:
    from broker.replicas.partitions import Partitions

log = logging.getLogger("controller.controller")  # one name for both, by which its level is set

# New partitions made in one turn of the loop. Each takes some 0.4 ms in system calls, 5 ms while the disk is busy.
HOSTED_A_TURN = 4


class Hosting(ABC):
    """Of one process.

    Args:
        cluster_id, image: what the metadata is.
        partitions: those that this process hosts; kept as the image has them.
        directory_ids: of the log directories, by path.
        call_soon: calls a function in the loop's next turn.
        worker: whose partitions are hosted here, where there are several workers.
    """

    def __init__(
        self,
        config: BrokerConfig,
        cluster_id: str,
        image: MetadataImage,
        partitions: Partitions,
        directory_ids: Mapping[str, bytes],
        call_soon: Callable[[Callable[[], None]], object],
        worker: int = OWNER,
    ) -> None:
        self.cluster_id = cluster_id
        self.image = image
        self._config = config
        self._partitions = partitions
        self._directory_ids = directory_ids
        self._call_soon = call_soon
        self._worker = worker
        self._failed_directories: set[bytes] = set()
        self._unhosted: deque[tuple[bytes, int]] = deque()
        self._await_hosting: list[Deferred[None]] = []
        self._placements: list[tuple[bytes, int, bytes]] = []
        self._deletion_listeners: list[Callable[[TopicImage], None]] = []
        self._change_listeners: list[Callable[[Delta], None]] = []
        self._config_listeners: list[Callable[[int, str], None]] = []
        config.subscribe(config.topic_defaults_keys, lambda _: self.refresh_topics())

    # ---- whose business it is

    @abstractmethod
    def record_placements(self, placed: Sequence[tuple[bytes, int, bytes]]) -> None:
        """Tell the metadata in which directory each (topic id, partition) is now. Raises what storage raises."""

    @abstractmethod
    def auto_create(self, names: Iterable[str], admit: Admit = unlimited) -> Deferred[list[NewTopicResult]]:
        """Make topics that somebody uses without having made them; what goes wrong is logged, as nobody asks.

        `admit` is asked about the partitions of each.
        """

    # ---- what is there

    def ensure_topic(self, name: str) -> Deferred[bool]:
        """Make a topic by the rules for internal and automatic ones, if it is not there. Whether it is there then."""
        if self.image.topic(name) is None:
            return self.auto_create([name]).then(lambda _: self.image.topic(name) is not None)
        return Deferred.resolved(True) if self.partition_count(name) else self._done().then(lambda _: True)

    def partition_count(self, name: str) -> int:
        """How many partitions a topic has; 0 while it is not there, or not all of it: it takes several turns."""
        topic = self.image.topic(name)
        if topic is None or any(topic_id == topic.topic_id for topic_id, _ in self._unhosted):
            return 0
        return len(topic.partitions)

    def is_to_be_hosted(self, name: str, index: int) -> bool:
        """Whether a partition has its turn still to come."""
        topic = self.image.topic(name)
        return topic is not None and (topic.topic_id, index) in self._unhosted

    def _done(self) -> Deferred[None]:
        """Resolves once what the image has can be relied on."""
        return self.when_hosted()

    def when_hosted(self) -> Deferred[None]:
        """Resolves once what the image has is hosted."""
        if not self._unhosted:
            return Deferred.resolved(None)
        self._await_hosting.append(Deferred())
        return self._await_hosting[-1]

    def on_config_changed(self, callback: Callable[[int, str], None]) -> None:
        """Call `callback(resource_type, name)` after the configuration of a resource has changed."""
        self._config_listeners.append(callback)

    def on_topic_deleted(self, callback: Callable[[TopicImage], None]) -> None:
        """Call `callback(topic)` after a topic was deleted: its partitions are hosted no more."""
        self._deletion_listeners.append(callback)

    def on_change(self, callback: Callable[[Delta], None]) -> None:
        """Call `callback(delta)` after the image has changed, before anything follows from it."""
        self._change_listeners.append(callback)

    # ---- carrying out

    def host_all(self) -> None:
        """Host what the metadata has for this broker: at the start, before any client."""
        online = self._online_directories()
        for topic in self.image.topics_by_name.values():
            config = self._log_config(topic)
            for index in topic.partitions:
                self._host(topic, index, config, online)
        self._record_placements()

    def _carry_out(self, delta: Delta) -> None:
        for on_change in self._change_listeners:
            on_change(delta)
        for topic in delta.deleted_topics:
            if self._worker == OWNER:
                log.info("Topic %s is deleted", topic.name)
            self._partitions.delete(topic.name)
            for on_deleted in self._deletion_listeners:
                on_deleted(topic)
        hosting = bool(self._unhosted)
        self._unhosted.extend((topic.topic_id, index) for topic, index in delta.created_partitions)
        if not hosting:
            self._host_some()
        if self._worker == OWNER:  # once is enough
            for name, count in Counter(topic.name for topic, _ in delta.created_partitions).items():
                log.info("Topic %s has %d new partition%s", name, count, "" if count == 1 else "s")
        for (_, index), topic in delta.changed_partitions.items():
            self._follow(topic, index)
        for resource_type, name in delta.changed_configs:
            self._apply_config(resource_type, name)
            for on_changed in self._config_listeners:
                on_changed(resource_type, name)

    def _host_some(self) -> None:
        """Host new partitions, so many a turn of the loop: each is a directory with files to be made."""
        for _ in range(min(HOSTED_A_TURN, len(self._unhosted))):
            topic_id, index = self._unhosted.popleft()
            topic = self.image.topic_by_id(topic_id)
            if topic is None:
                continue
            try:
                self._host(topic, index, self._log_config(topic))
            except Exception:  # the others, and who waits for them, are not to wait for ever
                log.exception("Partition %s-%d cannot be hosted", topic.name, index)
        if self._unhosted:
            self._call_soon(self._host_some)
            return
        self._record_placements()
        waiting, self._await_hosting = self._await_hosting, []
        for deferred in waiting:
            deferred.resolve(None)

    def _log_config(self, topic: TopicImage) -> LogConfig:
        return self._config.log_config(self.image.topic_config(topic.name))

    def _host(self, topic: TopicImage, index: int, config: LogConfig, online: Collection[bytes] | None = None) -> None:
        """Host a partition if its replica is here. It is offline if its disk does not work.

        `online`: of one that is not new, the directories that work; None: it is new.
        """
        registration = topic.partitions[index]
        node_id = self._config.node_id
        if node_id not in registration.replicas:
            return
        if worker_of(topic.name, index, self._config.num_workers) != self._worker:
            self._partitions.note_elsewhere(topic.name, topic.topic_id, index)
            return
        directory = registration.directory_of(node_id)
        partition = self._partitions.create(
            topic.name,
            topic.topic_id,
            index,
            config,
            leader_epoch=registration.leader_epoch,
            replicas=registration.replicas,
            isr=registration.isr,
            # What lies in a directory that works may be made anew there; else it may lie in one that does not.
            is_new=online is None or directory in online,
        )
        found = self._partitions.directory_of(partition)
        if found is not None and found.is_online and registration.directories:
            placed = self._directory_ids.get(found.path, directory)
            if placed != directory:
                self._placements.append((topic.topic_id, index, placed))

    def _online_directories(self) -> list[bytes]:
        registration = self.image.brokers.get(self._config.node_id)
        registered = () if registration is None else registration.log_directories
        return [each for each in registered if each not in self._failed_directories]

    def _record_placements(self) -> None:
        """Tell the metadata in which of several directories partitions were made."""
        if self._placements:
            placed, self._placements = self._placements, []
            self.record_placements(placed)

    def _follow(self, topic: TopicImage, index: int) -> None:
        """Take a partition's leader epoch over."""
        partition = self._partitions.get(topic.name, index)
        registration = topic.partitions.get(index)
        if partition is not None and registration is not None and registration.leader == self._config.node_id:
            self._partitions.lead(partition, registration.leader_epoch)

    def _apply_config(self, resource_type: int, name: str) -> None:
        if resource_type == ResourceType.TOPIC:
            if (topic := self.image.topic(name)) is not None:
                self._refresh(topic)
        elif resource_type == ResourceType.BROKER and name in ("", str(self._config.node_id)):
            self.apply_broker_config()

    def apply_broker_config(self) -> None:
        """Put the dynamic configuration of this broker in force."""
        image = self.image
        self._config.apply_dynamic(
            image.config(ResourceType.BROKER, ""), image.config(ResourceType.BROKER, str(self._config.node_id))
        )

    def refresh_topics(self) -> None:
        """Give all topics their configuration anew: the broker's, from which they take defaults, has changed."""
        for topic in self.image.topics_by_name.values():
            self._refresh(topic)

    def _refresh(self, topic: TopicImage) -> None:
        self._partitions.update_config(topic.name, self._log_config(topic))
