"""Controller: what the cluster's metadata is, and the only one who changes it (KIP-500).

A change is decided on the image (`metadata.*`, which changes nothing), appended to the metadata log as one batch,
replayed into the image and carried out: partitions made or removed, configurations put in force. All that happens
within one turn of the loop, but for partitions beyond the first few, which follow in the next turns
(broker/metadata_publisher.py).
Whoever asked is answered when that is done and the batch is on the disk; the disk is waited for off the loop, one sync
for all that came meanwhile.

Rules:
1. What cannot be appended has not happened: image and partitions are as before; the caller gets the storage's error.
2. What could not be synced may or may not be on the disk: nothing is decided after that, all further changes fail. A
   sync for which there was no file descriptor has not begun: it waits for one, and whoever asked waits with it.
3. Only records change the image. What a restart finds in the log is what it continues with.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, TypeVar

from broker.metadata_publisher import Hosting
from config import BrokerConfig, ConfigError
from controller.auto_topic_creation import creatable_topic
from metadata import (
    configs,
    create_partitions,
    create_topics,
    delete_topics,
    elections,
)
from metadata import (
    registration as lifecycle,
)
from metadata.create_partitions import MorePartitions, MorePartitionsResult
from metadata.create_topics import NewTopic, NewTopicResult, TopicDefaults
from metadata.decision import Admit, Decision, unlimited
from metadata.delete_topics import DeletedTopic, TopicReference
from metadata.elections import ElectionType, PartitionResult
from metadata.framing import MetadataRecord, new_record
from metadata.image import MetadataImage
from metadata.replay import Delta, replay_all
from protocol.errors import ErrorCode
from protocol.messages.cluster_metadata import ProducerIdsRecord
from runtime.coalesced_sync import CoalescedSync
from runtime.deferred import Deferred, after, gather
from runtime.ids import random_id
from runtime.log_limit import LimitedLog

if TYPE_CHECKING:
    from broker.replicas.partitions import Partitions
    from controller.metadata_log import MetadataLog

log = logging.getLogger(__name__)
automatic_log = LimitedLog(log)  # a client may ask for a topic that cannot be made again and again

T = TypeVar("T")


def _log_automatic(created: Deferred[list[NewTopicResult]]) -> None:
    try:
        results = created.result()
    except Exception as error:
        automatic_log.warning("A topic cannot be made automatically: %s", error)
        return
    for result in results:
        if result.error_code is not ErrorCode.NONE:
            automatic_log.warning("Topic %s is not made automatically: %s", result.name, result.error_message)


class Followers(Protocol):
    """Other processes that go by the same metadata."""

    def follow(self, records: Sequence[MetadataRecord]) -> None:
        """A batch was appended."""

    def when_caught_up(self) -> Deferred[None]:
        """Resolves once all have carried out what they were told so far, or have ended."""


class Controller(Hosting):
    """Of a single node, which is always the active one.

    Args:
        metadata_log: the log, loaded; `image` is what it says.
        partitions: those that this broker hosts; kept as the image has them.
        sync: forces the metadata log to the disk, off the loop.
        directory_ids: of the log directories, by path.
        call_soon: calls a function in the loop's next turn.
    """

    def __init__(
        self,
        config: BrokerConfig,
        cluster_id: str,
        metadata_log: MetadataLog,
        image: MetadataImage,
        partitions: Partitions,
        sync: Callable[[], Deferred[None]],
        now_ms: Callable[[], int],
        directory_ids: Mapping[str, bytes] = MappingProxyType({}),
        call_soon: Callable[[Callable[[], None]], object] = lambda function: function(),
    ) -> None:
        super().__init__(config, cluster_id, image, partitions, directory_ids, call_soon)
        #: Told of each batch, where there are any.
        self.followers: Followers | None = None
        self._log = metadata_log
        self._sync = CoalescedSync(sync)
        self._now_ms = now_ms
        self._failure: Exception | None = None

    @property
    def last_offset(self) -> int:
        """The offset of the last record that the image holds."""
        return self._log.end_offset - 1

    # ---- changes

    def submit(self, records: Sequence[MetadataRecord]) -> Deferred[None]:
        """Append records as one batch, all or nothing, and carry them out. Resolves once they are on the disk."""
        try:
            delta = self.append(records)
        except Exception as error:
            failed: Deferred[None] = Deferred()
            failed.fail(error)
            return failed
        if delta.is_empty:  # there is nothing to carry out: no process that is slow holds it up
            return self.sync_now() if records else Deferred.resolved(None)
        return self._done()

    def append(self, records: Sequence[MetadataRecord]) -> Delta:
        """Append records as one batch and carry them out, without waiting for the disk. Raises what storage raises."""
        if self._failure is not None:
            raise self._failure
        if not records:
            return Delta()
        self._log.append(records, self._now_ms())
        if self.followers is not None:
            self.followers.follow(records)
        delta = replay_all(self.image, records)
        self._carry_out(delta)
        return delta

    def _done(self) -> Deferred[None]:
        """Resolves once what was appended is on the disk and carried out."""
        waiting = [self.sync_now()]
        if self._unhosted:
            waiting.append(self.when_hosted())
        if self.followers is not None:
            waiting.append(self.followers.when_caught_up())
        return waiting[0] if len(waiting) == 1 else gather(waiting).then(lambda _: None)

    def sync_now(self) -> Deferred[None]:
        """Resolves once all that was appended is on the disk."""
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
            return Deferred.resolved(decision.results)
        return self.submit(decision.records).then(lambda _: decision.results)

    # ---- what may be asked for

    def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, admit: Admit = unlimited
    ) -> Deferred[list[NewTopicResult]]:
        """Make topics, each by itself."""
        decision = create_topics.create_topics(
            self.image,
            topics,
            defaults=TopicDefaults(
                self._config.get_int("num.partitions"), self._config.get_int("default.replication.factor")
            ),
            check_config=self._config_problem,
            new_topic_id=self._new_topic_id,
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
        """Remove topics, each by itself."""
        return self._settle(delete_topics.delete_topics(self.image, topics, admit))

    def create_partitions(
        self, topics: Sequence[MorePartitions], *, validate_only: bool = False, admit: Admit = unlimited
    ) -> Deferred[list[MorePartitionsResult]]:
        """Add partitions to topics, to each by itself."""
        return self._settle(create_partitions.create_partitions(self.image, topics, admit), validate_only)

    def elect_leaders(
        self, election_type: ElectionType, partitions: Sequence[tuple[str, int]] | None
    ) -> Deferred[list[PartitionResult]]:
        """Elect leaders of (topic, partition), of all for None."""
        return self._settle(elections.elect_leaders(self.image, election_type, partitions))

    def alter_reassignments(
        self, targets: Sequence[tuple[str, int, tuple[int, ...] | None]]
    ) -> Deferred[list[PartitionResult]]:
        """Give (topic, partition) other replicas."""
        return self._settle(elections.alter_reassignments(self.image, targets))

    def auto_create(self, names: Iterable[str], admit: Admit = unlimited) -> Deferred[list[NewTopicResult]]:
        wanted = [creatable_topic(self._config, name, len(self.image.brokers)) for name in names]
        created = self.create_topics(wanted, admit=admit)
        created.add_done_callback(_log_automatic)
        return created

    def create_declared_topics(self) -> Deferred[list[NewTopicResult]]:
        """Make those topics of `pybroker.topics` that are missing; the others stay as they are.

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
        """Put a block of producer ids aside. Resolves to the first of them."""
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
        """Set, or with None take away, settings of a resource that were checked already."""
        return self.submit(configs.alter_config(self.image, resource_type, name, changes))

    def record_placements(self, placed: Sequence[tuple[bytes, int, bytes]]) -> None:
        self.append(lifecycle.assign_directories(self.image, self._config.node_id, placed))

    def directory_failed(self, path: str) -> None:
        """A log directory does not work any more: its partitions have no leader until it is back at some start.

        To be called before `host_all` for one that did not work at the start, so that none of them is made anew.
        """
        failed = self._directory_ids.get(path)
        if failed is not None:
            self._failed_directories.add(failed)
            if self._failure is None:
                self.submit(lifecycle.lose_directories(self.image, self._config.node_id, self._online_directories()))
