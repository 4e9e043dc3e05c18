"""A cluster controller with a log in memory, and brokers that register with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from config import load
from controller.cluster_controller import ClusterController
from metadata.bulk_records import Changes, single_records
from metadata.features import DIRECTORIES_LEVEL, ELIGIBLE_LEADER_REPLICAS, METADATA_VERSION, SUPPORTED_FEATURES
from metadata.framing import MetadataRecord, new_record
from metadata.image import MetadataImage, ResourceType
from metadata.partition_registration import PartitionRegistration
from protocol.messages.alter_partition import ALTER_PARTITION
from protocol.messages.alter_partition import BrokerState as ReplicaEpoch
from protocol.messages.alter_partition import RequestPartitionData as AlterData
from protocol.messages.alter_partition import RequestTopicData as AlterTopic
from protocol.messages.broker_heartbeat import BROKER_HEARTBEAT
from protocol.messages.broker_registration import BROKER_REGISTRATION, Feature, Listener
from protocol.messages.cluster_metadata import ConfigRecord, PartitionRecord, TopicRecord
from protocol.schema import Struct
from runtime.deferred import Deferred
from tests.support.controllers import CLUSTER_ID

SESSION_MS = 9000
TOPIC = bytes(15) + b"\x09"


def directory(broker_id: int, number: int = 1) -> bytes:
    """Return the id of a log directory of a broker."""
    return bytes(12) + bytes((1, number, 0, broker_id))


class ListLog:
    """A metadata log that is a list of records."""

    def __init__(self) -> None:
        self.records: list[MetadataRecord] = []
        self.batches: list[int] = []
        self.failure: Exception | None = None
        self.epoch = 1
        self.quorum = SimpleNamespace(kraft_version=1)

    @property
    def end_offset(self) -> int:
        return len(self.records)

    def append(self, records: Sequence[Changes], now_ms: int) -> int:
        if self.failure is not None:
            raise self.failure
        offset, found = len(self.records), single_records(records)
        self.records += found
        self.batches.append(len(found))
        return offset


class SmallCluster:
    """The controller 100, and helpers that stand for brokers. `now_ms` is the clock of sessions."""

    def __init__(self, *, elr: bool = True, level: int = 30, settings: dict[str, str] | None = None) -> None:
        self.now_ms = 0
        self.log = ListLog()
        self.image = MetadataImage(features={METADATA_VERSION: level})
        if elr:
            self.image.features[ELIGIBLE_LEADER_REPLICAS] = 1
        self.syncs: list[Deferred[None]] | None = None
        keys = {"node.id": "100", "listeners": "PLAINTEXT://127.0.0.1:9092", "log.dirs": "/logs"}
        self.config = load(None, overrides=keys | (settings or {}))
        self.controller = self.start()

    def start(self, soon: Callable[[Callable[[], None]], object] = lambda call: call()) -> ClusterController:
        """Start a controller on the log, as after a restart. `soon` is called with what the end of the turn does."""
        return ClusterController(
            self.config,
            CLUSTER_ID,
            self.log,  # type: ignore[arg-type]
            self.image,
            self._sync,
            lambda: 0,
            lambda: self.now_ms,
            soon,
        )

    def _sync(self) -> Deferred[None]:
        if self.syncs is None:
            return Deferred.resolved(None)
        self.syncs.append(Deferred())
        return self.syncs[-1]

    def since(self, offset: int) -> list[tuple[str, dict[str, Any]]]:
        """Return the name and the fields that are set of each record from an offset on."""
        return [(each.message.name, set_fields(each)) for each in self.log.records[offset:]]

    # ---- brokers

    def registration(self, broker_id: int, incarnation: int = 1, **fields: Any) -> Struct:
        """Return a BrokerRegistration request."""
        features = [
            Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
            for name, (lowest, highest) in SUPPORTED_FEATURES.items()
        ]
        values = {
            "cluster_id": CLUSTER_ID,
            "incarnation_id": bytes((incarnation,)) * 16,
            "listeners": [Listener(name="PLAINTEXT", host="h", port=9092, security_protocol=0)],
            "features": features,
            "rack": None,
            "log_dirs": [directory(broker_id)],
        }
        return BROKER_REGISTRATION.request(broker_id=broker_id, **(values | fields))

    def register(self, broker_id: int, incarnation: int = 1, **fields: Any) -> Struct:
        """Register a broker, and return the response."""
        return self.controller.register_broker(self.registration(broker_id, incarnation, **fields)).result()

    def heartbeat(self, broker_id: int, **fields: Any) -> Struct:
        """Send a heartbeat of a broker that has applied all records, and return the response."""
        broker = self.image.brokers.get(broker_id)
        values = {
            "broker_epoch": broker.broker_epoch if broker is not None else -1,
            "current_metadata_offset": self.log.end_offset - 1,
        }
        request = BROKER_HEARTBEAT.request(broker_id=broker_id, **(values | fields))
        return self.controller.heartbeat(request).result()

    def with_brokers(self, *broker_ids: int, **fields: Any) -> SmallCluster:
        """Register and unfence brokers; return itself."""
        for broker_id in broker_ids:
            self.register(broker_id, **fields)
            self.heartbeat(broker_id)
        return self

    # ---- partitions

    def with_topic(self, *replicas: tuple[int, ...], name: str = "t", topic_id: bytes = TOPIC) -> SmallCluster:
        """Create a topic with these replicas of its partitions, which are all in sync; return itself."""
        level = self.image.metadata_version
        records = [new_record(level, TopicRecord, name=name, topic_id=topic_id)]
        for index, each in enumerate(replicas):
            directories = [directory(broker_id) for broker_id in each if level >= DIRECTORIES_LEVEL]
            fields: dict[str, Any] = {
                "replicas": list(each),
                "isr": list(each),
                "leader": each[0],
                "directories": directories,
            }
            fields |= {"leader_epoch": 0, "partition_epoch": 0}
            records.append(new_record(level, PartitionRecord, partition_id=index, topic_id=topic_id, **fields))
        self.controller.append(records)
        return self

    def configure(self, kind: ResourceType, name: str, key: str, value: str | None) -> None:
        """Set a setting of a resource."""
        fields = {"resource_type": kind, "resource_name": name, "name": key, "value": value}
        self.controller.append([new_record(self.image.metadata_version, ConfigRecord, **fields)])

    def partition(self, index: int = 0) -> PartitionRegistration:
        """Return a partition of the topic."""
        return self.image.topics_by_id[TOPIC].partitions[index]

    def proposal(self, index: int, isr: Sequence[int], **fields: Any) -> Struct:
        """Return a partition of an AlterPartition request of the current leader."""
        old = self.image.topics_by_id[TOPIC].partitions.get(index)
        values = {
            "leader_epoch": 0 if old is None else old.leader_epoch,
            "partition_epoch": 0 if old is None else old.partition_epoch,
            "new_isr_with_epochs": [
                ReplicaEpoch(
                    broker_id=each,
                    broker_epoch=self.image.brokers[each].broker_epoch if each in self.image.brokers else 7,
                )
                for each in isr
            ],
        }
        return AlterData(partition_index=index, **(values | fields))

    def alter(self, broker_id: int, *proposals: Struct, topic_id: bytes = TOPIC, **fields: Any) -> Struct:
        """Send an AlterPartition request, and return the response."""
        values = {"broker_epoch": self.image.brokers[broker_id].broker_epoch}
        topics = [AlterTopic(topic_id=topic_id, partitions=list(proposals))]
        request = ALTER_PARTITION.request(broker_id=broker_id, topics=topics, **(values | fields))
        return self.controller.alter_partition(request).result()


def set_fields(record: MetadataRecord) -> dict[str, Any]:
    """Return the fields of a record that differ from their defaults."""
    empty = record.message.new()
    names = [field.name for field in record.message.fields]
    return {name: getattr(record.value, name) for name in names if getattr(record.value, name) != getattr(empty, name)}
