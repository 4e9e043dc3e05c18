"""The active controller of other brokers: registrations, heartbeats, in-sync replicas and leaders (KIP-631).

It is the only voter of its quorum. Each request is decided on the image, appended, and answered once all that its
answer depends on is on the disk. Errors wait for that, too: an error may come of a record that is not yet on the disk.
Sockets, authorization and versions are its caller's.

A single node without other brokers has `controller.controller.Controller` alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from config import BrokerConfig
from controller.broker_life import BrokerLife
from controller.controller import Controller
from controller.elections import Elections
from controller.replica_index import ReplicaIndex
from controller.topic_settings import UNCLEAN_ELECTIONS, TopicSettings
from metadata import reassignments
from metadata.alter_partition import ANY_EPOCH, AlteredPartition, NewIsr, alter_partitions
from metadata.broker_registration import Cluster
from metadata.bulk_records import Changes, batches_of
from metadata.controller_registration import register_controller
from metadata.create_topics import NewTopic, NewTopicResult
from metadata.decision import MAX_RECORDS_PER_REQUEST, Admit, PartitionResult, Refused, unlimited
from metadata.delta import Delta
from metadata.directory_assignments import Placement, assign_directories
from metadata.feature_updates import NodeFeatures, features_of_nodes
from metadata.features import DIRECTORIES_LEVEL
from metadata.framing import MetadataRecord, new_record
from metadata.image import MetadataImage
from metadata.leader_moves import LeaderMoves
from protocol.error_codes import ErrorCode
from protocol.messages.allocate_producer_ids import ALLOCATE_PRODUCER_IDS
from protocol.messages.alter_partition import ALTER_PARTITION
from protocol.messages.alter_partition import ResponsePartitionData as AlteredData
from protocol.messages.alter_partition import ResponseTopicData as AlteredTopic
from protocol.messages.assign_replicas_to_dirs import ASSIGN_REPLICAS_TO_DIRS
from protocol.messages.assign_replicas_to_dirs import ResponseDirectoryData as AssignedDirectory
from protocol.messages.assign_replicas_to_dirs import ResponsePartitionData as AssignedPartition
from protocol.messages.assign_replicas_to_dirs import ResponseTopicData as AssignedTopic
from protocol.messages.broker_heartbeat import BROKER_HEARTBEAT
from protocol.messages.broker_registration import BROKER_REGISTRATION
from protocol.messages.cluster_metadata import ConfigRecord, ProducerIdsRecord
from protocol.messages.controller_registration import CONTROLLER_REGISTRATION
from protocol.messages.unregister_broker import UNREGISTER_BROKER
from protocol.schema import Api, Struct
from runtime.deferred import Deferred
from runtime.log_limit import LimitedLog
from storage.errors import StorageError

if TYPE_CHECKING:
    from controller.metadata_log import MetadataLog

log = logging.getLogger(__name__)

PRODUCER_IDS = 1000
"""The producer ids of one block, as in Kafka."""


class ClusterController(Controller):
    """The controller of other brokers.

    Args:
        metadata_log: the log, loaded and led; `image` is its state.
        sync: syncs the metadata log to the disk, off the loop.
        now_ms: the wall clock, for the log.
        monotonic_ms: the clock of sessions and intervals.
        soon: calls a function at the end of the turn.
    """

    def __init__(
        self,
        config: BrokerConfig,
        cluster_id: str,
        metadata_log: MetadataLog,
        image: MetadataImage,
        sync: Callable[[], Deferred[None]],
        now_ms: Callable[[], int],
        monotonic_ms: Callable[[], int],
        soon: Callable[[Callable[[], None]], object] = lambda call: call(),
    ) -> None:
        super().__init__(config, cluster_id, metadata_log, image, sync, now_ms, soon)
        #: The offset up to which the log is known to be on the disk.
        self.durable_offset = 0
        self._settings = TopicSettings(image, config)
        self._index = ReplicaIndex(image)
        self.subscribe(self._index)
        unclean = self._settings.may_be_unclean
        session_ms = config.get_int("broker.session.timeout.ms")
        self._brokers = BrokerLife(self, self._index, unclean, monotonic_ms, session_ms)
        self._elections = Elections(config, self, self._index, unclean, monotonic_ms)
        self._is_closed = False
        #: Brokers and clients may repeat what is refused.
        self._refused_log = LimitedLog(log, lines=10, seconds=30)
        #: A broker repeats its registration each half second, until the session of its former process has ended.
        self._registration_log = LimitedLog(log, lines=3, seconds=30)

    # ---- the log

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self._log.end_offset

    def append(self, records: Sequence[Changes]) -> Delta:
        delta = super().append(records)
        if records:
            self.sync_now()  # brokers wait for it, also where no answer does
        if delta.changed_configs and any(_is_about_unclean_elections(each) for each in records):
            self._elections.elect_unclean()
        return delta

    def write(self, changes: Sequence[Changes]) -> None:
        """Append records, in several batches if they are many. Raises the storage's errors."""
        for batch in batches_of(changes, MAX_RECORDS_PER_REQUEST):
            self.append(batch)

    def sync_now(self) -> Deferred[None]:
        offset, done = self._log.end_offset, super().sync_now()
        done.add_done_callback(lambda synced: self._note_durable(offset, synced))
        return done

    def _note_durable(self, offset: int, synced: Deferred[None]) -> None:
        with suppress(Exception):  # the callers get it, and later changes fail
            synced.result()
            self.durable_offset = max(self.durable_offset, offset)

    def when_durable(self) -> Deferred[None]:
        """Return a Deferred that resolves once all appended records are on the disk."""
        return Deferred.resolved(None) if self.durable_offset == self.end_offset else self.sync_now()

    def _answer(self, decide: Callable[[], Struct], refused: Callable[[Refused], Struct]) -> Deferred[Struct]:
        """Decide, and answer once all so far is on the disk. The Deferred fails with the storage's errors."""
        try:
            if self._failure is not None:
                raise self._failure
            response = decide()
        except Refused as refusal:
            response = refused(refusal)
        except (StorageError, OSError) as error:
            failed: Deferred[Struct] = Deferred()
            failed.fail(error)
            return failed
        if self.durable_offset == self.end_offset:  # most heartbeats change nothing
            return Deferred.resolved(response)
        return self.when_durable().then(lambda _: response)

    def _refusal(self, api: Api, request: Struct, refusal: Refused) -> Struct:
        """Return the error of a request that another process of the broker may have sent, and log it."""
        self._refused_log.warning("%s of broker %d is refused: %s", api.name, request.broker_id, refusal.message)
        return api.response(error_code=refusal.error_code)

    # ---- brokers

    def register_broker(self, request: Struct) -> Deferred[Struct]:
        """Answer BrokerRegistration."""

        def decide() -> Struct:
            cluster = Cluster(self.cluster_id, self._log.quorum.kraft_version, self.end_offset)
            return BROKER_REGISTRATION.response(broker_epoch=self._brokers.register(request, cluster))

        def refused(refusal: Refused) -> Struct:
            self._registration_log.warning("Broker %d is not registered: %s", request.broker_id, refusal.message)
            return BROKER_REGISTRATION.response(error_code=refusal.error_code)

        return self._answer(decide, refused)

    def heartbeat(self, request: Struct) -> Deferred[Struct]:
        """Answer BrokerHeartbeat."""

        def decide() -> Struct:
            answer = self._brokers.heartbeat(request)
            return BROKER_HEARTBEAT.response(**answer._asdict())

        return self._answer(decide, lambda refusal: self._refusal(BROKER_HEARTBEAT, request, refusal))

    def former_process_ended(self, broker_id: int) -> None:
        """Note that the registered process of a broker has ended, so that its next one can register at once."""
        self._brokers.end_session(broker_id)

    def unregister_broker(self, request: Struct) -> Deferred[Struct]:
        """Answer UnregisterBroker."""

        def decide() -> Struct:
            self._brokers.unregister(request.broker_id)
            return UNREGISTER_BROKER.response(error_message="")

        def refused(refusal: Refused) -> Struct:
            return UNREGISTER_BROKER.response(error_code=refusal.error_code, error_message=refusal.message)

        return self._answer(decide, refused)

    def register_controller(self, request: Struct) -> Deferred[Struct]:
        """Answer ControllerRegistration."""

        def decide() -> Struct:
            self.append([register_controller(self.image, request)])
            return CONTROLLER_REGISTRATION.response()

        def refused(refusal: Refused) -> Struct:
            return CONTROLLER_REGISTRATION.response(error_code=refusal.error_code, error_message=refusal.message)

        return self._answer(decide, refused)

    def allocate_producer_ids_for(self, request: Struct) -> Deferred[Struct]:
        """Answer AllocateProducerIds with a block of ids."""

        def decide() -> Struct:
            self._brokers.check_epoch(request.broker_id, request.broker_epoch)
            first = self.image.next_producer_id
            record = new_record(
                self.image.metadata_version,
                ProducerIdsRecord,
                broker_id=request.broker_id,
                broker_epoch=request.broker_epoch,
                next_producer_id=first + PRODUCER_IDS,
            )
            self.append([record])
            return ALLOCATE_PRODUCER_IDS.response(producer_id_start=first, producer_id_len=PRODUCER_IDS)

        return self._answer(decide, lambda refusal: self._refusal(ALLOCATE_PRODUCER_IDS, request, refusal))

    # ---- partitions

    def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, admit: Admit = unlimited
    ) -> Deferred[list[NewTopicResult]]:
        """Create topics, each on its own. Log the others, because the clients are those of other nodes."""
        created = super().create_topics(topics, validate_only=validate_only, admit=admit)
        return created.then(self._log_refused_topics)

    def _log_refused_topics(self, results: list[NewTopicResult]) -> list[NewTopicResult]:
        for each in results:
            # Many clients create their topics again at each start.
            if each.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                self._refused_log.warning(
                    "Topic %s is not created: %s", each.name, each.error_message or each.error_code.text
                )
        return results

    def alter_partition(self, request: Struct) -> Deferred[Struct]:
        """Answer AlterPartition."""

        def decide() -> Struct:
            self._brokers.check_epoch(request.broker_id, request.broker_epoch)
            proposals = [_new_isr(topic.topic_id, each) for topic in request.topics for each in topic.partitions]
            unclean = self._settings.may_be_unclean
            decision = alter_partitions(self.image, request.broker_id, proposals, unclean)
            self.write(decision.records)
            results = iter(decision.results)
            topics = [
                AlteredTopic(topic_id=topic.topic_id, partitions=[_altered(next(results)) for _ in topic.partitions])
                for topic in request.topics
            ]
            return ALTER_PARTITION.response(topics=topics)

        return self._answer(decide, lambda refusal: self._refusal(ALTER_PARTITION, request, refusal))

    def assign_replicas_to_dirs(self, request: Struct) -> Deferred[Struct]:
        """Answer AssignReplicasToDirs."""

        def decide() -> Struct:
            if self.image.metadata_version < DIRECTORIES_LEVEL:
                raise Refused(ErrorCode.UNSUPPORTED_VERSION, "Directory assignment is not supported yet.")
            broker_id = request.broker_id
            self._brokers.check_epoch(broker_id, request.broker_epoch)
            placements = [
                Placement(topic.topic_id, each.partition_index, directory.id)
                for directory in request.directories
                for topic in directory.topics
                for each in topic.partitions
            ]
            decision = assign_directories(self.image, broker_id, placements)
            moves = LeaderMoves(self.image, self._settings.may_be_unclean, removed=broker_id)
            self.write([*decision.records, *moves.changes(decision.offline.values())])
            return _assigned(request, decision.errors)

        return self._answer(decide, lambda refusal: self._refusal(ASSIGN_REPLICAS_TO_DIRS, request, refusal))

    def alter_reassignments(
        self, targets: Sequence[reassignments.Target], *, may_change_factor: bool = True
    ) -> Deferred[list[PartitionResult]]:
        """Change the replicas of partitions. Topics that allow unclean elections may always go back."""
        decision = reassignments.alter_reassignments(
            self.image,
            targets,
            may_change_factor=may_change_factor,
            may_be_unclean=self._settings.may_be_unclean,
        )
        return self._settle(decision)

    def features_of_others(self) -> Sequence[NodeFeatures]:
        """Return the features of all registered nodes but this one: feature levels have to suit them, too."""
        return features_of_nodes(self.image, self._config.node_id)

    # ---- time

    @property
    def ended_sessions(self) -> int:
        """How many brokers were fenced because their session had ended."""
        return self._brokers.ended_sessions

    @property
    def unclean_elections(self) -> int:
        """How many leaders were elected that may lack committed records, since the start."""
        return self._index.unclean_elections

    @property
    def eligible_elections(self) -> int:
        """How many leaders were elected that were eligible, but no longer in sync (KIP-966), since the start."""
        return self._index.eligible_elections

    def tick(self) -> int:
        """Do what is due: end sessions, elect leaders. Return after how many milliseconds to call again."""
        if self._is_closed or self._failure is not None:
            return 1000
        with suppress(StorageError, OSError):  # the log's directory reports that itself
            self._brokers.end_sessions()
            self._elections.run_due()
            self.when_durable()
        return max(1, min(self._brokers.until_next_end_ms(), self._elections.until_next_ms()))

    def close(self) -> None:
        """Stop: `tick` does nothing any more."""
        self._is_closed = True


def _is_about_unclean_elections(change: Changes) -> bool:
    return (
        isinstance(change, MetadataRecord) and change.message is ConfigRecord and change.value.name == UNCLEAN_ELECTIONS
    )


def _new_isr(topic_id: bytes, proposed: Struct) -> NewIsr:
    """Return a proposal. Before version 3 the in-sync set has no broker epochs (KIP-903)."""
    isr = [(each.broker_id, each.broker_epoch) for each in proposed.new_isr_with_epochs or ()]
    isr += [(each, ANY_EPOCH) for each in proposed.new_isr or ()]
    return NewIsr(
        topic_id,
        proposed.partition_index,
        proposed.leader_epoch,
        proposed.partition_epoch,
        tuple(isr),
        proposed.leader_recovery_state,
    )


def _altered(result: AlteredPartition) -> Struct:
    state = result.state
    if state is None:
        return AlteredData(partition_index=result.partition, error_code=result.error_code)
    return AlteredData(
        partition_index=result.partition,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        leader_recovery_state=state.leader_recovery_state,
        partition_epoch=state.partition_epoch,
    )


def _assigned(request: Struct, errors: Sequence[ErrorCode]) -> Struct:
    found = iter(errors)
    directories = []
    for directory in request.directories:
        topics = []
        for topic in directory.topics:
            partitions = [
                AssignedPartition(partition_index=each.partition_index, error_code=next(found))
                for each in topic.partitions
            ]
            topics.append(AssignedTopic(topic_id=topic.topic_id, partitions=partitions))
        directories.append(AssignedDirectory(id=directory.id, topics=topics))
    return ASSIGN_REPLICAS_TO_DIRS.response(directories=directories)
