"""The registration of a broker with the controller of its cluster (KIP-631).

Kafka's ClusterControlManager.registerBroker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from metadata.decision import Refused
from metadata.features import DIRECTORIES_LEVEL, KRAFT_VERSION, METADATA_VERSION
from metadata.framing import MetadataRecord, new_record
from metadata.image import BrokerRegistration, FeatureRange, MetadataImage
from metadata.partition_registration import is_reserved_directory
from protocol.error_codes import ErrorCode
from protocol.messages.cluster_metadata import RegisterBrokerRecord
from protocol.messages.cluster_metadata.brokers import BrokerEndpoint, BrokerFeature
from protocol.schema import Struct


class Cluster(NamedTuple):
    """Facts that are not in the image. `next_offset` is the offset of the record that is appended next."""

    cluster_id: str
    kraft_version: int
    next_offset: int


class Accepted(NamedTuple):
    """An accepted registration.

    Args:
        record: the RegisterBrokerRecord.
        broker_epoch: the epoch of the broker: that of its registration before if the request is only repeated.
        is_new: whether another process than before registers, or the first one.
        stopped_in_order: whether it is known that the former process lost no record (KIP-966).
    """

    record: MetadataRecord
    broker_epoch: int
    is_new: bool
    stopped_in_order: bool


def register_broker(image: MetadataImage, request: Struct, cluster: Cluster, *, has_session: bool) -> Accepted:
    """Decide about a BrokerRegistration request. `has_session`: whether the broker that has this id was just heard.

    Raises Refused: INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION, BROKER_ID_NOT_REGISTERED for a broker that
    migrates from ZooKeeper, INVALID_REGISTRATION for bad log directories, UNSUPPORTED_VERSION for features.
    """
    if request.cluster_id != cluster.cluster_id:
        message = f"Expected cluster ID {cluster.cluster_id}, but got cluster ID {request.cluster_id}"
        raise Refused(ErrorCode.INCONSISTENT_CLUSTER_ID, message)
    existing = image.brokers.get(request.broker_id)
    is_new = existing is None or existing.incarnation_id != request.incarnation_id
    if is_new and has_session:
        message = (
            "Another broker is registered with that broker id. If the broker was recently restarted this should"
            " self-resolve once the heartbeat manager expires the broker's session."
        )
        raise Refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION, message)
    if request.is_migrating_zk_broker:
        message = "Controller does not support registering ZK brokers."
        raise Refused(ErrorCode.BROKER_ID_NOT_REGISTERED, message)
    has_directories = image.metadata_version >= DIRECTORIES_LEVEL
    if has_directories:
        _check_directories(image, request)
    _check_features(request, {**image.features, KRAFT_VERSION: cluster.kraft_version})
    known = None if is_new else existing
    broker_epoch = cluster.next_offset if known is None else known.broker_epoch
    record = new_record(
        image.metadata_version,
        RegisterBrokerRecord,
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=broker_epoch,
        end_points=[
            BrokerEndpoint(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in request.listeners
        ],
        features=[
            BrokerFeature(
                name=each.name,
                min_supported_version=each.min_supported_version,
                max_supported_version=each.max_supported_version,
            )
            for each in request.features
        ],
        rack=request.rack,
        fenced=known is None or known.fenced,
        in_controlled_shutdown=known is not None and known.in_controlled_shutdown,
        log_dirs=list(request.log_dirs) if has_directories else [],
    )
    return Accepted(record, broker_epoch, is_new, _stopped_in_order(existing, request))


def _stopped_in_order(existing: BrokerRegistration | None, request: Struct) -> bool:
    return existing is not None and existing.broker_epoch == request.previous_broker_epoch


def _check_directories(image: MetadataImage, request: Struct) -> None:
    """Check the ids of log directories: each belongs to one broker (KIP-858)."""
    code = ErrorCode.INVALID_REGISTRATION
    wanted = set(request.log_dirs)
    if not wanted:
        raise Refused(code, "No directories specified in request")
    if any(map(is_reserved_directory, wanted)):
        raise Refused(code, "Reserved directory ID in request")
    if len(wanted) < len(request.log_dirs):
        raise Refused(code, "Duplicate directory ID in request")
    for broker in image.brokers.values():
        if broker.broker_id != request.broker_id and wanted.intersection(broker.log_directories):
            raise Refused(code, f"Broker {broker.broker_id} is already registered with one of these directories")


def _check_features(request: Struct, levels: Mapping[str, int]) -> None:
    """Check that the broker supports the level of each feature of the cluster."""
    ranges = {
        each.name: FeatureRange(each.name, each.min_supported_version, each.max_supported_version)
        for each in request.features
    }
    if METADATA_VERSION not in ranges:
        raise Refused(ErrorCode.INVALID_REGISTRATION, "Request features do not contain 'metadata.version'")
    for name in ranges.keys() | levels.keys():
        found, level = ranges.get(name, FeatureRange(name, 0, 0)), levels.get(name, 0)
        if not found.minimum <= level <= found.maximum:
            message = (
                f"Unable to register because the broker does not support finalized version {level} of {name}. The"
                f" broker wants a version between {found.minimum} and {found.maximum}, inclusive."
            )
            raise Refused(ErrorCode.UNSUPPORTED_VERSION, message)
