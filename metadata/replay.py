"""Apply records to the image: the only place where it changes, for live decisions and for loading.

`replay` takes records in the order of the log. A record that does not fit, such as a partition of an unknown topic,
is a ReplayError: the log is damaged, or of an unsupported version.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from metadata import quota_order
from metadata.bulk_records import PartitionChanges
from metadata.delta import Delta
from metadata.framing import AnyRecord, UnknownRecord
from metadata.image import (
    BrokerRegistration,
    ControllerRegistration,
    Endpoint,
    FeatureRange,
    MetadataImage,
    QuotaEntity,
    TopicImage,
)
from metadata.partition_registration import LeaderRecoveryState, PartitionRegistration, registration_of
from protocol.messages.cluster_metadata import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from protocol.primitives import ZERO_UUID
from protocol.schema import Message, Struct

NO_LEADER_CHANGE = -2

_NEW_TUPLE = tuple.__new__


class ReplayError(Exception):
    """A record contradicts earlier ones."""


def replay(image: MetadataImage, record: AnyRecord, delta: Delta) -> None:
    """Apply one record to the image, and note in `delta` what follows from it. Raises ReplayError."""
    if isinstance(record, UnknownRecord):
        image.unknown_records.append(record)
        return
    _REPLAY[record.message.key](image, record.value, delta)


def replay_all(image: MetadataImage, records: Iterable[AnyRecord | PartitionChanges]) -> Delta:
    """Apply a batch of records."""
    delta = Delta()
    for record in records:
        if isinstance(record, PartitionChanges):
            _replay_changes(image, record, delta)
        else:
            replay(image, record, delta)
    if len(delta.new_quotas) > 1:
        quota_order.reorder_new(image.client_quotas, delta.new_quotas)
    return delta


def _topic(image: MetadataImage, value: Struct) -> TopicImage:
    topic = image.topics_by_id.get(value.topic_id)
    if topic is None:
        raise ReplayError(f"{value.struct_type.name} of an unknown topic: {value.topic_id.hex()}")
    return topic


def _broker(image: MetadataImage, broker_id: int, broker_epoch: int, what: str, delta: Delta) -> BrokerRegistration:
    """Return the registration that a record changes."""
    delta.changed_brokers.add(broker_id)
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise ReplayError(f"{what} of broker {broker_id}, which is not registered")
    if broker.broker_epoch != broker_epoch:
        raise ReplayError(f"{what} of broker {broker_id} at epoch {broker_epoch}; its epoch is {broker.broker_epoch}")
    return broker


def replay_register_broker(image: MetadataImage, value: Struct, delta: Delta) -> None:
    delta.changed_brokers.add(value.broker_id)
    image.brokers[value.broker_id] = BrokerRegistration(
        broker_id=value.broker_id,
        broker_epoch=value.broker_epoch,
        incarnation_id=value.incarnation_id,
        endpoints=_endpoints(value),
        features=_features(value),
        rack=value.rack,
        fenced=value.fenced,
        in_controlled_shutdown=value.in_controlled_shutdown,
        log_directories=tuple(value.log_dirs),
        cordoned_log_directories=None if value.cordoned_log_dirs is None else tuple(value.cordoned_log_dirs),
        is_migrating_zk_broker=value.is_migrating_zk_broker,
    )


def replay_unregister_broker(image: MetadataImage, value: Struct, delta: Delta) -> None:
    _broker(image, value.broker_id, value.broker_epoch, "UnregisterBrokerRecord", delta)
    del image.brokers[value.broker_id]


def replay_fence_broker(image: MetadataImage, value: Struct, delta: Delta) -> None:
    image.brokers[value.id] = replace(_broker(image, value.id, value.epoch, "FenceBrokerRecord", delta), fenced=True)


def replay_unfence_broker(image: MetadataImage, value: Struct, delta: Delta) -> None:
    image.brokers[value.id] = replace(_broker(image, value.id, value.epoch, "UnfenceBrokerRecord", delta), fenced=False)


def replay_broker_registration_change(image: MetadataImage, value: Struct, delta: Delta) -> None:
    """`fenced` is 1 for fencing, -1 for unfencing, 0 for neither. Fields with their default change nothing."""
    broker = _broker(image, value.broker_id, value.broker_epoch, "BrokerRegistrationChangeRecord", delta)
    cordoned = value.cordoned_log_dirs
    image.brokers[value.broker_id] = replace(
        broker,
        fenced=broker.fenced if value.fenced == 0 else value.fenced > 0,
        in_controlled_shutdown=broker.in_controlled_shutdown or value.in_controlled_shutdown > 0,
        log_directories=tuple(value.log_dirs) or broker.log_directories,
        cordoned_log_directories=broker.cordoned_log_directories if cordoned is None else tuple(cordoned),
    )


def replay_register_controller(image: MetadataImage, value: Struct, _: Delta) -> None:
    image.controllers[value.controller_id] = ControllerRegistration(
        controller_id=value.controller_id,
        incarnation_id=value.incarnation_id,
        zk_migration_ready=value.zk_migration_ready,
        endpoints=_endpoints(value),
        features=_features(value),
    )


def replay_unregister_controller(image: MetadataImage, value: Struct, _: Delta) -> None:
    image.controllers.pop(value.controller_id, None)


def _endpoints(value: Struct) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(e.name, e.host, e.port, e.security_protocol) for e in value.end_points)


def _features(value: Struct) -> tuple[FeatureRange, ...]:
    return tuple(FeatureRange(f.name, f.min_supported_version, f.max_supported_version) for f in value.features)


def replay_topic(image: MetadataImage, value: Struct, _: Delta) -> None:
    if value.name in image.topics_by_name or value.topic_id in image.topics_by_id:
        raise ReplayError(f"TopicRecord of {value.name}, which already exists")
    image.add_topic(TopicImage(value.name, value.topic_id))


def replay_remove_topic(image: MetadataImage, value: Struct, delta: Delta) -> None:
    topic = _topic(image, value)
    image.remove_topic(topic)
    delta.deleted_topics.append(topic)


def replay_partition(image: MetadataImage, value: Struct, delta: Delta) -> None:
    topic = _topic(image, value)
    if value.partition_id not in topic.partitions:
        delta.created_partitions.append((topic, value.partition_id))
    topic.partitions[value.partition_id] = registration_of(value)


def replay_registration(
    image: MetadataImage, topic_id: bytes, partition: int, registration: PartitionRegistration
) -> None:
    """Apply a decoded PartitionRecord, where no Delta is needed."""
    topic = image.topics_by_id.get(topic_id)
    if topic is None:
        raise ReplayError(f"PartitionRecord of an unknown topic: {topic_id.hex()}")
    topic.partitions[partition] = registration


def replay_partition_change(image: MetadataImage, value: Struct, delta: Delta) -> None:
    replay_change(image, value.topic_id, value.partition_id, value, delta)


def replay_change(image: MetadataImage, topic_id: bytes, index: int, value: Struct, delta: Delta) -> None:
    """Apply the fields of a PartitionChangeRecord to a partition.

    Fields that are null or have their default change nothing. A leader, even the same one, begins a leader epoch.
    """
    topic = image.topics_by_id.get(topic_id)
    if topic is None:
        raise ReplayError(f"PartitionChangeRecord of an unknown topic: {topic_id.hex()}")
    old = topic.partitions.get(index)
    if old is None:
        raise ReplayError(f"PartitionChangeRecord of {topic.name}-{index}, which does not exist")
    topic.partitions[index] = changed_registration(old, value)
    delta.changed_partitions[topic_id, index] = topic


def changed_registration(old: PartitionRegistration, value: Struct) -> PartitionRegistration:
    """Return a partition after a PartitionChangeRecord."""
    leads = value.leader != NO_LEADER_CHANGE
    recovery = value.leader_recovery_state
    return PartitionRegistration(
        replicas=_changed(value.replicas, old.replicas),
        isr=_changed(value.isr, old.isr),
        leader=value.leader if leads else old.leader,
        leader_epoch=old.leader_epoch + 1 if leads else old.leader_epoch,
        partition_epoch=old.partition_epoch + 1,
        directories=old.directories if value.directories is None else tuple(value.directories),
        removing_replicas=_changed(value.removing_replicas, old.removing_replicas),
        adding_replicas=_changed(value.adding_replicas, old.adding_replicas),
        eligible_leader_replicas=_changed(value.eligible_leader_replicas, old.eligible_leader_replicas),
        last_known_elr=_changed(value.last_known_elr, old.last_known_elr),
        leader_recovery_state=old.leader_recovery_state if recovery < 0 else LeaderRecoveryState(recovery),
    )


def _replay_changes(image: MetadataImage, changes: PartitionChanges, delta: Delta) -> None:
    """Apply the change of each partition; for equal partitions the result is computed once."""
    value = changes.record(ZERO_UUID, 0).value
    epochs = int(value.leader != NO_LEADER_CHANGE)
    known: dict[tuple[object, ...], PartitionRegistration] = {}
    for topic_id, index in changes.partitions:
        topic = image.topics_by_id.get(topic_id)
        old = topic.partitions.get(index) if topic is not None else None
        if topic is None or old is None:
            replay_partition_change(image, changes.record(topic_id, index).value, delta)  # it raises the error
            continue
        others = (*old[:3], *old[5:])
        new = known.get(others)
        if new is None:
            new = known[others] = changed_registration(old, value)
        fields = (*new[:3], old.leader_epoch + epochs, old.partition_epoch + 1, *new[5:])
        topic.partitions[index] = _NEW_TUPLE(PartitionRegistration, fields)
        delta.changed_partitions[topic_id, index] = topic


def _changed(new: list[int] | None, old: tuple[int, ...]) -> tuple[int, ...]:
    return old if new is None else tuple(new)


def replay_clear_elr(image: MetadataImage, value: Struct, delta: Delta) -> None:
    """Clear the eligible leaders of one topic, or of all if the name is empty: min.insync.replicas has changed.

    As in Kafka, this is a change of each partition that has some: its epoch rises, and leaders have to know that one.
    """
    if not value.topic_name:
        topics = list(image.topics_by_name.values())
    elif (topic := image.topics_by_name.get(value.topic_name)) is not None:
        topics = [topic]
    else:
        raise ReplayError(f"ClearElrRecord of {value.topic_name}, which does not exist")
    for topic in topics:
        for index, partition in topic.partitions.items():
            if partition.eligible_leader_replicas or partition.last_known_elr:
                epoch = partition.partition_epoch + 1
                topic.partitions[index] = partition._replace(
                    partition_epoch=epoch, eligible_leader_replicas=(), last_known_elr=()
                )
                delta.changed_partitions[topic.topic_id, index] = topic


def replay_config(image: MetadataImage, value: Struct, delta: Delta) -> None:
    """Apply a setting; a null value removes it."""
    resource = (value.resource_type, value.resource_name)
    settings = image.configs.setdefault(resource, {})
    if value.value is None:
        settings.pop(value.name, None)
    else:
        settings[value.name] = value.value
    if not settings:
        del image.configs[resource]
    delta.changed_configs.add(resource)


def replay_feature_level(image: MetadataImage, value: Struct, _: Delta) -> None:
    """Apply a feature level. Level 0 removes the feature."""
    if value.feature_level:
        image.features[value.name] = value.feature_level
    else:
        image.features.pop(value.name, None)


def replay_producer_ids(image: MetadataImage, value: Struct, _: Delta) -> None:
    image.next_producer_id = value.next_producer_id


def replay_client_quota(image: MetadataImage, value: Struct, delta: Delta) -> None:
    delta.changed_quotas = True
    entity: QuotaEntity = tuple(sorted((e.entity_type, e.entity_name) for e in value.entity))
    quotas = image.client_quotas.setdefault(entity, {})
    if value.remove:
        quotas.pop(value.key, None)
    else:
        if value.key not in quotas:
            delta.new_quotas.append((entity, value.key))
        quotas[value.key] = value.value
    if not quotas:
        del image.client_quotas[entity]


def replay_user_scram_credential(image: MetadataImage, value: Struct, _: Delta) -> None:
    key = value.name, value.mechanism
    _forget_iterations(image, image.scram_credentials.get(key))
    image.scram_credentials[key] = value
    image.scram_iterations.setdefault(value.mechanism, Counter())[value.iterations] += 1


def replay_remove_user_scram_credential(image: MetadataImage, value: Struct, _: Delta) -> None:
    _forget_iterations(image, image.scram_credentials.pop((value.name, value.mechanism), None))


def _forget_iterations(image: MetadataImage, credential: Struct | None) -> None:
    if credential is not None:
        image.scram_iterations[credential.mechanism] -= Counter((credential.iterations,))


def replay_access_control_entry(image: MetadataImage, value: Struct, delta: Delta) -> None:
    image.acls[value.id] = value
    delta.changed_acls = True


def replay_remove_access_control_entry(image: MetadataImage, value: Struct, delta: Delta) -> None:
    image.acls.pop(value.id, None)
    delta.changed_acls = True


def replay_delegation_token(image: MetadataImage, value: Struct, delta: Delta) -> None:
    image.delegation_tokens[value.token_id] = value
    delta.changed_tokens.add(value.token_id)


def replay_remove_delegation_token(image: MetadataImage, value: Struct, delta: Delta) -> None:
    image.delegation_tokens.pop(value.token_id, None)
    delta.changed_tokens.add(value.token_id)


def replay_zk_migration_state(image: MetadataImage, value: Struct, _: Delta) -> None:
    image.zk_migration_state = value.zk_migration_state


def _nothing(_image: MetadataImage, _value: Struct, _: Delta) -> None:
    """Do nothing: these records have no state. The loader resolves transactions (`metadata.loading`)."""


Replay = Callable[[MetadataImage, Struct, Delta], None]
_BY_MESSAGE: list[tuple[Message, Replay]] = [
    (RegisterBrokerRecord, replay_register_broker),
    (UnregisterBrokerRecord, replay_unregister_broker),
    (FenceBrokerRecord, replay_fence_broker),
    (UnfenceBrokerRecord, replay_unfence_broker),
    (BrokerRegistrationChangeRecord, replay_broker_registration_change),
    (RegisterControllerRecord, replay_register_controller),
    (UnregisterControllerRecord, replay_unregister_controller),
    (TopicRecord, replay_topic),
    (RemoveTopicRecord, replay_remove_topic),
    (PartitionRecord, replay_partition),
    (PartitionChangeRecord, replay_partition_change),
    (ClearElrRecord, replay_clear_elr),
    (ConfigRecord, replay_config),
    (FeatureLevelRecord, replay_feature_level),
    (ProducerIdsRecord, replay_producer_ids),
    (ClientQuotaRecord, replay_client_quota),
    (UserScramCredentialRecord, replay_user_scram_credential),
    (RemoveUserScramCredentialRecord, replay_remove_user_scram_credential),
    (AccessControlEntryRecord, replay_access_control_entry),
    (RemoveAccessControlEntryRecord, replay_remove_access_control_entry),
    (DelegationTokenRecord, replay_delegation_token),
    (RemoveDelegationTokenRecord, replay_remove_delegation_token),
    (ZkMigrationStateRecord, replay_zk_migration_state),
    (NoOpRecord, _nothing),
    (BeginTransactionRecord, _nothing),
    (EndTransactionRecord, _nothing),
    (AbortTransactionRecord, _nothing),
]
_REPLAY: dict[int | None, Replay] = {message.key: function for message, function in _BY_MESSAGE}
