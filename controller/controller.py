"""The active controller: it owns the cluster's metadata, and is the only one that changes it (KIP-500).

`metadata.*` decides a change on the image without changing anything. The controller appends the change to the metadata
log as one batch, replays it into the image, and hands the delta to its publishers. That happens within one turn of the
loop. The caller gets its answer once the batch is on the disk and published. The sync runs off the loop; all batches
that were appended meanwhile share the next one.

Rules:
1. A batch that cannot be appended has no effect: the image is as before, and the caller gets the storage's error.
2. After a failed sync the content of the disk is unknown: all further changes fail. A sync that found no free file
   descriptor has not begun: it waits for one, and its callers wait with it.
3. Only records change the image. A restart continues with what it finds in the log.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import randrange
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec.structs import replace

from config import BrokerConfig, ConfigError
from controller.auto_topic_creation import creatable_topic
from metadata import (
    configs,
    create_partitions,
    create_topics,
    delete_topics,
    elections,
    reassignments,
)
from metadata import (
    registration as lifecycle,
)
from metadata.bulk_records import Changes
from metadata.create_partitions import MorePartitions, MorePartitionsResult
from metadata.create_topics import NewTopic, NewTopicResult, TopicDefaults
from metadata.decision import Admit, Decision, PartitionResult, check_size, unlimited
from metadata.delete_topics import DeletedTopic, TopicReference
from metadata.delta import Delta
from metadata.elections import ElectionType
from metadata.framing import MetadataRecord, new_record
from metadata.image import NO_CONFIGS, MetadataImage
from metadata.replay import replay_all
from protocol.error_codes import ErrorCode
from protocol.messages.cluster_metadata import ProducerIdsRecord
from runtime.coalesced_sync import CoalescedSync
from runtime.deferred import Deferred, after, gather
from runtime.ids import random_id
from runtime.log_limit import LimitedLog

if TYPE_CHECKING:
    from controller.metadata_log import MetadataLog
    from metadata.feature_updates import NodeFeatures

log = logging.getLogger(__name__)
automatic_log = LimitedLog(log)  # a client may request a topic that cannot be created any number of times

T = TypeVar("T")


def _log_topics(delta: Delta) -> None:
    for topic in delta.deleted_topics:
        log.info("Topic %s is deleted", topic.name)
    if delta.created_partitions:
        for name, count in Counter(topic.name for topic, _ in delta.created_partitions).items():
            log.info("Topic %s has %d new partition%s", name, count, "" if count == 1 else "s")


def _log_automatic(created: Deferred[list[NewTopicResult]]) -> None:
    try:
        results = created.result()
    except Exception as error:
        automatic_log.warning("Cannot create a topic automatically: %s", error)
        return
    for result in results:
        if result.error_code is not ErrorCode.NONE:
            automatic_log.warning("Cannot create topic %s automatically: %s", result.name, result.error_message)


class Publisher(Protocol):
    """Applies changes of the metadata in this process."""

    def publish(self, delta: Delta) -> None:
        """Apply a change that the image already has."""

    def when_published(self) -> Deferred[None]:
        """Resolves once all changes so far are applied."""


class Controller:
    """The controller of a single node, which is always the active one.

    Args:
        metadata_log: the log, loaded; `image` is its state.
        sync: syncs the metadata log to the disk, off the loop.
        soon: calls a function at the end of the turn, so that one sync serves all that the turn appends.
    """

    def __init__(
        self,
        config: BrokerConfig,
        cluster_id: str,
        metadata_log: MetadataLog,
        image: MetadataImage,
        sync: Callable[[], Deferred[None]],
        now_ms: Callable[[], int],
        soon: Callable[[Callable[[], None]], object] = lambda call: call(),
    ) -> None:
        self.cluster_id = cluster_id
        self.image = image
        self._config = config
        self._publishers: list[Publisher] = []
        self._log = metadata_log
        self._sync = CoalescedSync(sync, soon)
        self._now_ms = now_ms
        self._failure: Exception | None = None

    def subscribe(self, publisher: Publisher) -> None:
        """Add a publisher, which applies all later changes."""
        self._publishers.append(publisher)

    @property
    def last_offset(self) -> int:
        """The offset of the last record in the image."""
        return self._log.end_offset - 1

    # ---- changes

    def submit(self, records: Sequence[MetadataRecord], *, of_request: bool = True) -> Deferred[None]:
        """Append records as one batch, all or none. Resolves once they are on the disk and published.

        It fails with TooManyRecords if one request has too many; the broker's own changes have no limit.
        """
        try:
            if of_request:
                check_size(records)
            delta = self.append(records)
        except Exception as error:
            failed: Deferred[None] = Deferred()
            failed.fail(error)
            return failed
        if delta.is_empty:  # do not wait for slow processes if there is nothing to publish
            return self.sync_now() if records else Deferred.resolved(None)
        return self.when_published()

    def append(self, records: Sequence[Changes]) -> Delta:
        """Append records as one batch and publish them, without waiting for the disk. Raises the storage's errors."""
        if self._failure is not None:
            raise self._failure
        if not records:
            return Delta()
        self._log.append(records, self._now_ms())
        delta = replay_all(self.image, records)
        for publisher in self._publishers:
            publisher.publish(delta)
        _log_topics(delta)
        return delta

    def when_published(self) -> Deferred[None]:
        """Return a Deferred that resolves once all appended records are on the disk and applied by all processes."""
        waiting = [self.sync_now()]
        waiting += [published for publisher in self._publishers if not (published := publisher.when_published()).done]
        return waiting[0] if len(waiting) == 1 else gather(waiting).then(lambda _: None)

    def sync_now(self) -> Deferred[None]:
        """Return a Deferred that resolves once all appended records are on the disk."""
        done = self._sync.request()
        done.add_done_callback(self._on_synced)
        return done

    def _on_synced(self, done: Deferred[None]) -> None:
        try:
            done.result()
        except Exception as error:
            if self._failure is None:
                log.critical("The metadata log cannot be written any more; nothing can be changed: %s", error)
            self._failure = error

    def _settle(self, decision: Decision[T], validate_only: bool = False) -> Deferred[list[T]]:
        if validate_only:
            check_size(decision.records)
            return Deferred.resolved(decision.results)
        return self.submit(decision.records).then(lambda _: decision.results)

    # ---- requests

    def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, admit: Admit = unlimited
    ) -> Deferred[list[NewTopicResult]]:
        """Create topics, each on its own."""
        decision = create_topics.create_topics(
            self.image,
            topics,
            defaults=TopicDefaults(
                self._config.get_int("num.partitions"), self._config.get_int("default.replication.factor")
            ),
            check_config=self._config_problem,
            new_topic_id=self._new_topic_id,
            random_below=randrange,
            admit=admit,
        )
        return self._settle(decision, validate_only)

    def _config_problem(self, settings: Mapping[str, str]) -> str | None:
        try:
            self._config.validate_topic_config(settings)
        except ConfigError as error:
            return str(error)
        return None

    def _new_topic_id(self) -> bytes:
        while True:
            topic_id = random_id()
            if topic_id not in self.image.topics_by_id:
                return topic_id

    def delete_topics(self, topics: Sequence[TopicReference], admit: Admit = unlimited) -> Deferred[list[DeletedTopic]]:
        """Delete topics, each on its own."""
        return self._settle(delete_topics.delete_topics(self.image, topics, admit))

    def create_partitions(
        self, topics: Sequence[MorePartitions], *, validate_only: bool = False, admit: Admit = unlimited
    ) -> Deferred[list[MorePartitionsResult]]:
        """Add partitions to topics, to each on its own."""
        decision = create_partitions.create_partitions(self.image, topics, random_below=randrange, admit=admit)
        return self._settle(decision, validate_only)

    def elect_leaders(
        self, election_type: ElectionType, partitions: Sequence[tuple[str, int]] | None
    ) -> Deferred[list[PartitionResult]]:
        """Elect the leaders of partitions (topic, partition); None: of all."""
        return self._settle(elections.elect_leaders(self.image, election_type, partitions))

    def alter_reassignments(
        self, targets: Sequence[reassignments.Target], *, may_change_factor: bool = True
    ) -> Deferred[list[PartitionResult]]:
        """Change the replicas of partitions."""
        decision = reassignments.alter_reassignments(self.image, targets, may_change_factor=may_change_factor)
        return self._settle(decision)

    def auto_create(
        self, names: Iterable[str], admit: Admit = unlimited, configs: Mapping[str, str] = NO_CONFIGS
    ) -> Deferred[list[NewTopicResult]]:
        """Create internal topics, and those that clients use.

        Failures are logged, because no client requested the creation.

        `admit` may reject the partitions of each topic. `configs`: more settings of theirs.
        """
        wanted = [creatable_topic(self._config, name, len(self.image.brokers)) for name in names]
        if configs:
            wanted = [replace(topic, configs={**topic.configs, **configs}) for topic in wanted]
        created = self.create_topics(wanted, admit=admit)
        created.add_done_callback(_log_automatic)
        return created

    def create_declared_topics(self) -> Deferred[list[NewTopicResult]]:
        """Create the topics of `pybroker.topics` that do not exist. Existing ones are not changed.

        Resolves once all that the start has written so far is on the disk.
        """
        missing = [
            NewTopic(topic.name, topic.partitions, create_topics.USE_DEFAULT, configs=topic.configs)
            for topic in self._config.declared_topics
            if self.image.topic(topic.name) is None
        ]
        created = self.create_topics(missing)
        created.add_done_callback(_log_automatic)
        return after(self.sync_now(), lambda: created)

    def allocate_producer_ids(self, count: int) -> Deferred[int]:
        """Reserve a block of producer ids. Resolves to the first of them."""
        first = self.image.next_producer_id
        node_id = self._config.node_id
        registration = self.image.brokers.get(node_id)
        record = new_record(
            self.image.metadata_version,
            ProducerIdsRecord,
            broker_id=node_id,
            broker_epoch=-1 if registration is None else registration.broker_epoch,
            next_producer_id=first + count,
        )
        return self.submit([record]).then(lambda _: first)

    def alter_config(self, resource_type: int, name: str, changes: Mapping[str, str | None]) -> Deferred[None]:
        """Set settings of a resource, or remove those with None. The caller has checked them."""
        return self.submit(configs.alter_config(self.image, resource_type, name, changes))

    def features_of_others(self) -> Sequence[NodeFeatures]:
        """Return the features of other nodes, which limit feature levels. A single node has none."""
        return ()

    # ---- reports of this node's broker

    def record_placements(self, placed: Sequence[tuple[bytes, int, bytes]]) -> None:
        """Record the log directory of each (topic id, partition, directory id). Raises the storage's errors."""
        self.append(lifecycle.assign_directories(self.image, self._config.node_id, placed))

    def keep_online_directories(self, online: Sequence[bytes]) -> None:
        """Record that only these log directories are online.

        Partitions in the others have no leader until a restart.
        """
        if self._failure is None:
            records = lifecycle.keep_online_directories(self.image, self._config.node_id, online)
            self.submit(records, of_request=False)
