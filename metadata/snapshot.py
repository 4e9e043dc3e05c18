"""The image as records: the content of a snapshot of the metadata log, in the order of Apache Kafka.

Replaying the records produces the same image. Feature levels are first, because a reader needs metadata.version for all
other records.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import asdict

from metadata.features import METADATA_VERSION
from metadata.framing import AnyRecord, MetadataRecord, new_record
from metadata.image import BrokerRegistration, ControllerRegistration, MetadataImage
from metadata.partition_registration import PartitionRegistration
from protocol.messages.cluster_metadata import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from protocol.messages.cluster_metadata.brokers import BrokerEndpoint, BrokerFeature
from protocol.messages.cluster_metadata.cluster import ControllerEndpoint, ControllerFeature
from protocol.messages.cluster_metadata.configs import EntityData


def image_records(image: MetadataImage) -> Iterator[AnyRecord]:
    """Yield the records that create the image from an empty one."""
    level = image.metadata_version
    for name in sorted(image.features, key=lambda name: (name != METADATA_VERSION, name)):
        yield new_record(level, FeatureLevelRecord, name=name, feature_level=image.features[name])
    for broker in image.brokers.values():
        yield _broker(level, broker)
    for controller in image.controllers.values():
        yield _controller(level, controller)
    for topic in image.topics_by_name.values():
        yield new_record(level, TopicRecord, name=topic.name, topic_id=topic.topic_id)
        for index, partition in topic.partitions.items():
            yield _partition(level, topic.topic_id, index, partition)
    for (resource_type, resource), settings in image.configs.items():
        for name, value in settings.items():
            fields = {"resource_type": resource_type, "resource_name": resource, "name": name, "value": value}
            yield new_record(level, ConfigRecord, **fields)
    yield from _rest(image, level)


def _rest(image: MetadataImage, level: int) -> Iterator[AnyRecord]:
    for entity, quotas in image.client_quotas.items():
        for key, value in quotas.items():
            parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
            yield new_record(level, ClientQuotaRecord, entity=parts, key=key, value=value)
    if image.next_producer_id:
        yield new_record(level, ProducerIdsRecord, broker_id=-1, next_producer_id=image.next_producer_id)
    for message, values in (
        (AccessControlEntryRecord, image.acls.values()),
        (UserScramCredentialRecord, image.scram_credentials.values()),
        (DelegationTokenRecord, image.delegation_tokens.values()),
    ):
        for stored in values:
            yield MetadataRecord(message, 0, stored)
    if image.zk_migration_state:
        yield new_record(level, ZkMigrationStateRecord, zk_migration_state=image.zk_migration_state)
    yield from image.unknown_records


def _broker(level: int, broker: BrokerRegistration) -> MetadataRecord:
    return new_record(
        level,
        RegisterBrokerRecord,
        broker_id=broker.broker_id,
        is_migrating_zk_broker=broker.is_migrating_zk_broker,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.broker_epoch,
        end_points=[BrokerEndpoint(**asdict(endpoint)) for endpoint in broker.endpoints],
        features=[
            BrokerFeature(name=f.name, min_supported_version=f.minimum, max_supported_version=f.maximum)
            for f in broker.features
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.log_directories),
        cordoned_log_dirs=None if broker.cordoned_log_directories is None else list(broker.cordoned_log_directories),
    )


def _controller(level: int, controller: ControllerRegistration) -> MetadataRecord:
    return new_record(
        level,
        RegisterControllerRecord,
        controller_id=controller.controller_id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=[ControllerEndpoint(**asdict(endpoint)) for endpoint in controller.endpoints],
        features=[
            ControllerFeature(name=f.name, min_supported_version=f.minimum, max_supported_version=f.maximum)
            for f in controller.features
        ],
    )


def _partition(level: int, topic_id: bytes, index: int, partition: PartitionRegistration) -> MetadataRecord:
    return new_record(
        level,
        PartitionRecord,
        partition_id=index,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories),
        eligible_leader_replicas=list(partition.eligible_leader_replicas) or None,
        last_known_elr=list(partition.last_known_elr) or None,
    )
