"""pybroker's own controller in a simulated cluster, on a log in memory.

`holds` keeps its syncs from ending. A failover is a restart: the next epoch begins, and of the records that were not
synced some are lost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace
from typing import Any

from config import BrokerConfig, load
from controller.cluster_controller import ClusterController
from controller.topic_settings import UNCLEAN_ELECTIONS
from metadata.bulk_records import Changes, single_records
from metadata.configs import MIN_INSYNC_REPLICAS
from metadata.elections import ElectionType
from metadata.features import ELIGIBLE_LEADER_REPLICAS, MAX_METADATA_VERSION, METADATA_VERSION
from metadata.framing import MetadataRecord, new_record
from metadata.image import MetadataImage, ResourceType
from metadata.loading import MetadataLoader
from metadata.partition_change import without
from metadata.partition_registration import (
    NO_LEADER,
    UNASSIGNED_DIRECTORY,
    LeaderRecoveryState,
    PartitionRegistration,
    registration_of,
)
from metadata.replay import changed_registration
from protocol.messages.cluster_metadata import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from protocol.schema import Message, Struct
from replication.partition_key import PartitionKey
from runtime.deferred import Deferred
from tests.simulation.active import SESSION_MS, ActiveController
from tests.simulation.invariants import Invariants
from tests.simulation.metadata import (
    NO_OP,
    TOPIC,
    BrokerState,
    ChangeBroker,
    ChangePartition,
    Marker,
    Record,
    RegisterBroker,
)
from tests.simulation.violation import Violation

NAME = "t"
CLUSTER_ID = "cluster"
#: A record that brokers need not know, such as a setting.
OTHER = Marker("other")


@cache
def _config() -> BrokerConfig:
    keys = {"node.id": "100", "listeners": "PLAINTEXT://127.0.0.1:9092", "log.dirs": "/logs"}
    return load(None, overrides={**keys, "broker.session.timeout.ms": str(SESSION_MS)})


@contextmanager
def quiet() -> Iterator[None]:
    """Let the controller log nothing: it warns of each fault of a schedule. Around many schedules it costs less."""
    log = logging.getLogger("controller")
    level = log.level
    if level == logging.CRITICAL:
        yield
        return
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)


class OwnController(ActiveController):
    """Runs `ClusterController`. `records` are all that are in the log, by their offsets, also those in its snapshot."""

    def __init__(self, min_isr: int, checks: Invariants) -> None:
        super().__init__(min_isr, checks)
        self.records: list[MetadataRecord] = []
        self.quorum = SimpleNamespace(kraft_version=0)
        self._now_ms = 0
        self._checked = 0
        #: Syncs that have not ended, with the offset that each reaches.
        self._syncs: list[tuple[int, Deferred[None]]] = []
        self._controller: Any = None
        self.append(
            [
                _new(FeatureLevelRecord, name=METADATA_VERSION, feature_level=MAX_METADATA_VERSION),
                _new(FeatureLevelRecord, name=ELIGIBLE_LEADER_REPLICAS, feature_level=1),
                _setting(ResourceType.BROKER, "", MIN_INSYNC_REPLICAS, str(min_isr)),
            ],
            0,
        )
        self.start()

    def start(self) -> None:
        """Start a controller on the records in the log."""
        loader = MetadataLoader(MetadataImage())
        for each in self.records:
            loader.feed(each)
        self._syncs = []
        self._checked = 0
        self._controller = ClusterController(
            _config(),
            CLUSTER_ID,
            self,  # type: ignore[arg-type]
            loader.image,
            self._sync,
            lambda: 0,
            lambda: self._now_ms,
        )
        self._controller.when_durable()

    def stop(self) -> None:
        self._controller, self._syncs = None, []

    # -- the log, as the controller uses it --------------------------------------------------------------------------

    @property
    def end_offset(self) -> int:
        return len(self.records)

    def append(self, changes: Sequence[Changes], now_ms: int) -> int:
        """Append a batch."""
        offset, records = len(self.records), single_records(changes)
        for each in records:
            self.records.append(each)
            self._append(self._seen(each), ends_batch=each is records[-1])
        return offset

    def _seen(self, record: MetadataRecord) -> Record:
        """Return a record as the simulated brokers read it."""
        convert = _CONVERSIONS.get(record.message)
        if convert is not None:
            return convert(record.value)
        if record.message is PartitionChangeRecord:
            return self._changed(record.value)
        return NO_OP if record.message is NoOpRecord else OTHER

    def _changed(self, value: Struct) -> ChangePartition:
        key = value.topic_id, value.partition_id
        old = self.image.partitions[key]
        new = changed_registration(old, value)
        return ChangePartition(key, new, unclean=self._is_unclean(old, new))

    def _is_unclean(self, old: PartitionRegistration, new: PartitionRegistration) -> bool:
        """Return whether a record lets a replica lead, now or later, that may lack records.

        A reassignment whose old replicas are all out of sync can be cancelled where unclean elections are allowed.
        """
        known = (NO_LEADER, old.leader, *old.isr, *old.eligible_leader_replicas)
        if new.leader not in known and new.leader_recovery_state is LeaderRecoveryState.RECOVERING:
            return True
        is_cancelled = old.is_reassigning and new.replicas == without(old.replicas, old.adding_replicas)
        return is_cancelled and self.unclean_allowed and not set(new.isr) <= set(known)

    def _sync(self) -> Deferred[None]:
        done: Deferred[None] = Deferred()
        self._syncs.append((self.end_offset, done))
        if not self.holds:
            self._end_syncs()
        return done

    def _end_syncs(self) -> None:
        while self._syncs:
            offset, done = self._syncs.pop(0)
            self.committed = max(self.committed, offset)
            done.resolve(None)

    def commit(self) -> None:
        self._end_syncs()
        self._controller.when_durable()

    def fail_over(self, kept: int, now_ms: int) -> None:
        self._lose_tail(kept)
        self._now_ms = now_ms
        del self.records[self.log.log_end_offset :]
        for each in (*self.log.snapshot, *self.log.written):
            self.image.apply(each.record)
        self._checks.failed_over(self.image.partitions, self.log.log_end_offset, False)
        self.append([_new(NoOpRecord)], 0)
        self.unclean_allowed = any(
            each.message is ConfigRecord and each.value.name == UNCLEAN_ELECTIONS for each in self.records
        )
        self.start()

    def end_sessions(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._controller.tick()
        if self._checked < self.end_offset:
            self._checked = self.end_offset
            self._check_image()

    def _check_image(self) -> None:
        """C: the controller's image is that of its log."""
        topic = self._controller.image.topics_by_id.get(TOPIC)
        for (_, number), state in self.image.partitions.items():
            if topic.partitions[number] != state:
                raise Violation("C the controller's image", f"{topic.partitions[number]}, and the log has {state}")
        for broker_id, each in self.image.brokers.items():
            known = self._controller.image.brokers[broker_id]
            if (known.broker_epoch, known.fenced, known.in_controlled_shutdown) != (
                each.epoch,
                each.fenced,
                each.shutting_down,
            ):
                raise Violation("C the controller's image", f"{known}, and the log has {each}")

    # -- requests of brokers -----------------------------------------------------------------------------------------

    def register(self, request: Struct, now_ms: int) -> Deferred[Struct]:
        self._now_ms = now_ms
        return _checked(self._controller.register_broker(request))

    def heartbeat(self, request: Struct, now_ms: int) -> Deferred[Struct]:
        self._now_ms = now_ms
        return _checked(self._controller.heartbeat(request))

    def alter_partition(self, request: Struct) -> Deferred[Struct]:
        return _checked(self._controller.alter_partition(request))

    def assign_directories(self, request: Struct) -> Deferred[Struct]:
        return _checked(self._controller.assign_replicas_to_dirs(request))

    # -- requests of operators ---------------------------------------------------------------------------------------

    def create(self, partitions: Iterable[tuple[PartitionKey, tuple[int, ...]]]) -> None:
        records = [_new(TopicRecord, name=NAME, topic_id=TOPIC)]
        records += [
            _new(
                PartitionRecord,
                partition_id=number,
                topic_id=TOPIC,
                replicas=list(replicas),
                isr=list(replicas),
                leader=replicas[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=[UNASSIGNED_DIRECTORY] * len(replicas),
            )
            for (_, number), replicas in partitions
        ]
        _checked(self._controller.submit(records))

    def prefer(self, key: PartitionKey, broker_id: int) -> bool:
        """Put a replica first by another assignment of the same replicas, and elect it."""
        old, known = self.image.partitions[key], self.image.brokers.get(broker_id)
        if broker_id == old.leader or broker_id not in old.isr or old.is_reassigning:
            return False
        if known is None or not known.is_active:
            return False
        order = (broker_id, *(each for each in old.replicas if each != broker_id))
        self.reassign(key, order)
        _checked(self._controller.elect_leaders(ElectionType.PREFERRED, [(NAME, key[1])]))
        return True

    def reassign(self, key: PartitionKey, replicas: tuple[int, ...] | None) -> bool:
        end = self.end_offset
        _checked(self._controller.alter_reassignments([(NAME, key[1], replicas)]))
        return self.end_offset > end

    def allow_unclean(self) -> None:
        self.unclean_allowed = True
        _checked(self._controller.alter_config(ResourceType.TOPIC, NAME, {UNCLEAN_ELECTIONS: "true"}))


def _checked(answer: Deferred[Any]) -> Deferred[Any]:
    """Return an answer. Raises the error with which it failed at once."""
    if answer.done:
        answer.result()
    return answer


def _new(message: Message, **fields: Any) -> MetadataRecord:
    return new_record(MAX_METADATA_VERSION, message, **fields)


def _setting(kind: ResourceType, resource: str, name: str, value: str) -> MetadataRecord:
    return _new(ConfigRecord, resource_type=kind, resource_name=resource, name=name, value=value)


def _registered(value: Struct) -> RegisterBroker:
    state = BrokerState(
        value.broker_epoch,
        value.incarnation_id,
        value.fenced,
        value.in_controlled_shutdown,
        tuple(value.log_dirs),
    )
    return RegisterBroker(value.broker_id, state)


def _changed_broker(value: Struct) -> ChangeBroker:
    return ChangeBroker(
        value.broker_id,
        value.broker_epoch,
        fenced=None if value.fenced == 0 else value.fenced > 0,
        shutting_down=value.in_controlled_shutdown > 0,
        directories=tuple(value.log_dirs) if value.log_dirs else None,
    )


def _created(value: Struct) -> ChangePartition:
    return ChangePartition((value.topic_id, value.partition_id), registration_of(value))


_CONVERSIONS: dict[Message, Callable[[Struct], Record]] = {
    RegisterBrokerRecord: _registered,
    BrokerRegistrationChangeRecord: _changed_broker,
    PartitionRecord: _created,
}
