"""The records of a node's life: bootstrap, registration, unfencing, and controlled shutdown.

The order is Apache Kafka's. A new log begins with the bootstrap transaction. Each start then writes
RegisterControllerRecord and RegisterBrokerRecord (fenced). Once the partitions are loaded, it writes the unfencing
together with the elections that it allows. A clean stop gives leadership up first, so that the next leader knows that
no record was lost: with KIP-966 the replica leaves the in-sync set and becomes an eligible leader.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from metadata.broker_moves import BrokerMoves, replicas_of
from metadata.bulk_records import Changes, ChangesBuilder, single_records
from metadata.configs import MIN_INSYNC_REPLICAS
from metadata.decision import Refused
from metadata.features import (
    BOOTSTRAP_FEATURES,
    CONTROLLER_REGISTRATION_LEVEL,
    CONTROLLER_UNREGISTRATION_LEVEL,
    CORDONED_DIRECTORIES_LEVEL,
    DIRECTORIES_LEVEL,
    ELIGIBLE_LEADER_REPLICAS,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
    TRANSACTIONS_LEVEL,
)
from metadata.framing import MetadataRecord, new_record
from metadata.image import Endpoint, MetadataImage, ResourceType
from metadata.partition_registration import is_reserved_directory
from protocol.error_codes import ErrorCode
from protocol.messages.cluster_metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
)
from protocol.messages.cluster_metadata.brokers import BrokerEndpoint, BrokerFeature
from protocol.messages.cluster_metadata.cluster import ControllerEndpoint, ControllerFeature

FENCE = 1
UNFENCE = -1


class NodeIdentity(msgspec.Struct, frozen=True):
    """A process: its node id, and an id that is new at each start."""

    node_id: int
    incarnation_id: bytes


def feature_records(features: Mapping[str, int] = BOOTSTRAP_FEATURES) -> list[MetadataRecord]:
    """Return the records with which a directory is formatted: the content of bootstrap.checkpoint."""
    level = features[METADATA_VERSION]
    return [new_record(level, FeatureLevelRecord, name=n, feature_level=to) for n, to in features.items()]


def feature_levels(records: Sequence[MetadataRecord]) -> dict[str, int]:
    """Return the feature levels that these records set."""
    return {each.value.name: each.value.feature_level for each in records if each.message is FeatureLevelRecord}


def bootstrap_records(formatted: Sequence[MetadataRecord], min_insync_replicas: int = 1) -> list[MetadataRecord]:
    """Return the first records of a new log: those of the formatted directory, as one transaction.

    With eligible leader replicas, the controller's own min.insync.replicas is the default of all brokers from the
    beginning (KIP-966).
    """
    features = feature_levels(formatted)
    level = features.get(METADATA_VERSION, 0)
    records = list(formatted)
    configured = any(r.message is ConfigRecord and r.value.name == MIN_INSYNC_REPLICAS for r in formatted)
    if features.get(ELIGIBLE_LEADER_REPLICAS, 0) and not configured:
        value = str(min_insync_replicas)
        setting = {"resource_type": ResourceType.BROKER, "name": MIN_INSYNC_REPLICAS, "value": value}
        records.append(new_record(level, ConfigRecord, **setting))
    if level < TRANSACTIONS_LEVEL:
        return records
    begin = new_record(level, BeginTransactionRecord, name="Bootstrap records")
    return [begin, *records, new_record(level, EndTransactionRecord)]


def abort_transaction(image: MetadataImage) -> list[MetadataRecord]:
    """Return the record that aborts a transaction of the last leader."""
    return [new_record(image.metadata_version, AbortTransactionRecord, reason="the node stopped in between")]


def register_controller(
    image: MetadataImage, node: NodeIdentity, endpoints: Sequence[Endpoint]
) -> list[MetadataRecord]:
    """Return the node's registration as controller; none if metadata.version has no such record."""
    if image.metadata_version < CONTROLLER_REGISTRATION_LEVEL:
        return []
    return [
        new_record(
            image.metadata_version,
            RegisterControllerRecord,
            controller_id=node.node_id,
            incarnation_id=node.incarnation_id,
            end_points=[ControllerEndpoint(**_endpoint(each)) for each in endpoints],
            features=[ControllerFeature(**each) for each in _features()],
        )
    ]


def register_broker(
    image: MetadataImage,
    node: NodeIdentity,
    broker_epoch: int,
    endpoints: Sequence[Endpoint],
    rack: str | None,
    log_directories: Sequence[bytes],
) -> list[MetadataRecord]:
    """Return the node's registration as broker, still fenced. `broker_epoch` is the offset that the batch will have."""
    return [
        new_record(
            image.metadata_version,
            RegisterBrokerRecord,
            broker_id=node.node_id,
            incarnation_id=node.incarnation_id,
            broker_epoch=broker_epoch,
            end_points=[BrokerEndpoint(**_endpoint(each)) for each in endpoints],
            features=[BrokerFeature(**each) for each in _features()],
            rack=rack,
            fenced=True,
            log_dirs=list(log_directories) if image.metadata_version >= DIRECTORIES_LEVEL else [],
        )
    ]


def _endpoint(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "name": endpoint.name,
        "host": endpoint.host,
        "port": endpoint.port,
        "security_protocol": endpoint.security_protocol,
    }


def _features() -> Iterator[dict[str, Any]]:
    for name, (lowest, highest) in SUPPORTED_FEATURES.items():
        yield {"name": name, "min_supported_version": lowest, "max_supported_version": highest}


def unfence_broker(image: MetadataImage, broker_id: int, missing: Collection[tuple[bytes, int]] = ()) -> list[Changes]:
    """Unfence the broker, and make it the leader of its partitions.

    It does not lead partitions in `missing` (topic id, partition), because their log directories are offline (KIP-858).
    If it led a partition when it crashed, it still leads it in the metadata. Such a partition gets a new leader epoch,
    so that clients and followers can detect which records of the old epoch were lost.
    """
    builder = ChangesBuilder(image.metadata_version)
    coming = BrokerMoves(image, broker_id, comes=True)
    going = BrokerMoves(image, broker_id, comes=False)
    for topic, index, partition in replicas_of(image, broker_id):
        moves = going if missing and (topic.topic_id, index) in missing else coming
        builder.add(topic.topic_id, index, moves.fields_of(topic, partition))
    return [registration_change(image, broker_id, fenced=UNFENCE), *builder.changes]


def leave(image: MetadataImage, broker_id: int) -> list[Changes]:
    """Return the records of a controlled shutdown: give leadership up, then fence.

    None if the broker was unregistered.
    """
    if broker_id not in image.brokers:
        return []
    return [
        registration_change(image, broker_id, in_controlled_shutdown=1),
        *_departure(image, broker_id),
        registration_change(image, broker_id, fenced=FENCE),
    ]


def _departure(image: MetadataImage, broker_id: int) -> list[Changes]:
    builder = ChangesBuilder(image.metadata_version)
    going = BrokerMoves(image, broker_id, comes=False)
    for topic, index, partition in replicas_of(image, broker_id):
        builder.add(topic.topic_id, index, going.fields_of(topic, partition))
    return builder.changes


def unregister_broker(image: MetadataImage, broker_id: int) -> list[MetadataRecord]:
    """Unregister a broker. Its partitions lose their leader. Raises Refused for an unregistered broker."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        message = f"Broker ID {broker_id} is not currently registered"
        raise Refused(ErrorCode.BROKER_ID_NOT_REGISTERED, message)
    fields = {"broker_id": broker_id, "broker_epoch": broker.broker_epoch}
    moves = single_records(_departure(image, broker_id))
    return [*moves, new_record(image.metadata_version, UnregisterBrokerRecord, **fields)]


def unregister_controller(image: MetadataImage, controller_id: int, *, active_id: int) -> list[MetadataRecord]:
    """Unregister a controller (KIP-1312).

    Raises Refused: INVALID_REQUEST for the active controller, UNSUPPORTED_VERSION if metadata.version has no such
    record, CONTROLLER_ID_NOT_REGISTERED.
    """
    if controller_id == active_id:
        raise Refused(ErrorCode.INVALID_REQUEST, "Controller cannot unregister itself while it is active.")
    if image.metadata_version < CONTROLLER_UNREGISTRATION_LEVEL:
        message = "The current MetadataVersion is too old to support controller unregistration."
        raise Refused(ErrorCode.UNSUPPORTED_VERSION, message)
    if controller_id not in image.controllers:
        message = f"Controller ID {controller_id} is not currently registered."
        raise Refused(ErrorCode.CONTROLLER_ID_NOT_REGISTERED, message)
    return [new_record(image.metadata_version, UnregisterControllerRecord, controller_id=controller_id)]


def keep_online_directories(image: MetadataImage, broker_id: int, online: Sequence[bytes]) -> list[MetadataRecord]:
    """Keep only the directories `online` of a broker. Partitions in its other directories have no leader (KIP-858)."""
    if broker_id not in image.brokers:
        return []
    builder = ChangesBuilder(image.metadata_version)
    going = BrokerMoves(image, broker_id, comes=False)
    for topic, index, partition in replicas_of(image, broker_id):
        directory = partition.directory_of(broker_id)
        if not is_reserved_directory(directory) and directory not in online:
            builder.add(topic.topic_id, index, going.fields_of(topic, partition))
    changed = [registration_change(image, broker_id, log_dirs=list(online))] if online else []
    return [*changed, *single_records(builder.changes)]


def cordon_directories(image: MetadataImage, broker_id: int, cordoned: Sequence[bytes]) -> list[MetadataRecord]:
    """Cordon directories of a broker against new partitions (KIP-1066); no record if metadata.version has none.

    The first report of a broker is recorded, also if it cordons nothing.
    """
    broker = image.brokers.get(broker_id)
    if broker is None or image.metadata_version < CORDONED_DIRECTORIES_LEVEL:
        return []
    known = broker.cordoned_log_directories
    if known is not None and set(known) == set(cordoned):
        return []
    return [registration_change(image, broker_id, cordoned_log_dirs=list(cordoned))]


def assign_directories(
    image: MetadataImage, broker_id: int, placed: Sequence[tuple[bytes, int, bytes]]
) -> list[MetadataRecord]:
    """Record in which log directories the broker has its replicas: (topic id, partition, directory id) (KIP-858)."""
    records = []
    for topic_id, index, directory in placed:
        topic = image.topic_by_id(topic_id)
        partition = topic.partitions.get(index) if topic is not None else None
        if partition is None or not partition.directories or partition.directory_of(broker_id) == directory:
            continue
        directories = [
            directory if replica == broker_id else old
            for replica, old in zip(partition.replicas, partition.directories, strict=True)
        ]
        records.append(_partition_change(image, topic_id, index, directories=directories))
    return records


def registration_change(image: MetadataImage, broker_id: int, **fields: Any) -> MetadataRecord:
    """Return a change of a registration, in the oldest version with these fields, as in Apache Kafka."""
    version = max(field.versions.min for field in BrokerRegistrationChangeRecord.fields if field.name in fields)
    epoch = image.brokers[broker_id].broker_epoch
    value = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=epoch, **fields)
    return MetadataRecord(BrokerRegistrationChangeRecord, version, value)


def _partition_change(image: MetadataImage, topic_id: bytes, index: int, **fields: Any) -> MetadataRecord:
    return new_record(image.metadata_version, PartitionChangeRecord, topic_id=topic_id, partition_id=index, **fields)
