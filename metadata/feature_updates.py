"""Decisions about feature levels (KIP-584, KIP-778): which changes are allowed, and their records.

A request is accepted as a whole or not at all. As in Kafka, a level that does not change is written again.
kraft.version is not a record of the image, and so is returned separately.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

import msgspec
from msgspec import field

from metadata.configs import MIN_INSYNC_REPLICAS
from metadata.decision import Refused
from metadata.features import (
    CHANGED_METADATA_LEVELS,
    ELIGIBLE_LEADER_REPLICAS,
    ELR_LEVEL,
    KRAFT_VERSION,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
)
from metadata.framing import MetadataRecord, new_record
from metadata.image import FeatureRange, MetadataImage, ResourceType
from protocol.error_codes import ErrorCode
from protocol.messages.cluster_metadata import ConfigRecord, FeatureLevelRecord


class UpgradeType(IntEnum):
    """The changes that the client allows: to raise a level, to lower it, or to lower it even if metadata is lost."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(msgspec.Struct, frozen=True):
    """The requested level of a feature. `upgrade_type` may be an invalid number."""

    name: str
    level: int
    upgrade_type: int = UpgradeType.UPGRADE


class NodeFeatures(NamedTuple):
    """The lowest and the highest level of each feature that a registered node supports. `name`: "Broker 1"."""

    name: str
    ranges: Mapping[str, tuple[int, int]]


def features_of_nodes(image: MetadataImage, node_id: int) -> list[NodeFeatures]:
    """Return the features of all registered brokers and controllers, except for the controller `node_id`."""
    found = [_node(f"Broker {number}", broker.features) for number, broker in image.brokers.items()]
    controllers = image.controllers.items()
    return found + [_node(f"Controller {number}", each.features) for number, each in controllers if number != node_id]


def _node(name: str, features: Iterable[FeatureRange]) -> NodeFeatures:
    return NodeFeatures(name, {each.name: (each.minimum, each.maximum) for each in features})


class FeatureDecision(msgspec.Struct):
    """Records of the metadata, and the new kraft.version, None if it does not change."""

    records: list[MetadataRecord] = field(default_factory=list)
    kraft_version: int | None = None


def update_features(
    image: MetadataImage,
    updates: Sequence[FeatureUpdate],
    *,
    node_id: int,
    kraft_version: int,
    min_insync_replicas: int,
    others: Sequence[NodeFeatures] = (),
) -> FeatureDecision:
    """Decide about all updates of a request. Raises Refused: INVALID_UPDATE_VERSION.

    Args:
        node_id: the controller, for the message.
        kraft_version: the current level.
        min_insync_replicas: the brokers' value in their configuration files. It is written when eligible leader
            replicas are turned on, which need the same value everywhere (KIP-966).
        others: the other nodes of the cluster, which have to support the levels, too.
    """
    decision = FeatureDecision()
    levels = {**image.features, **{update.name: update.level for update in updates}}
    for update in updates:
        current = kraft_version if update.name == KRAFT_VERSION else image.features.get(update.name, 0)
        _check(update, current, node_id, others)
        if update.name == KRAFT_VERSION:
            if update.level < current:
                raise _refused(update, "Can't downgrade the version of this feature.")
            if update.level > current:
                decision.kraft_version = update.level
            continue
        if update.name == METADATA_VERSION:
            _check_metadata_version(update, current)
        if update.name == ELIGIBLE_LEADER_REPLICAS and update.level > 0:
            if levels[METADATA_VERSION] < ELR_LEVEL:
                needed = f"{METADATA_VERSION} level {ELR_LEVEL}"
                raise _refused(
                    update, f"{update.name} could not be set to {update.level} because it depends on {needed}"
                )
            if not current:
                decision.records += _same_min_insync_replicas(image, min_insync_replicas)
        level = image.metadata_version
        decision.records.append(new_record(level, FeatureLevelRecord, name=update.name, feature_level=update.level))
    return decision


def _refused(update: FeatureUpdate, why: str) -> Refused:
    message = f"Invalid update version {update.level} for feature {update.name}. {why}"
    return Refused(ErrorCode.INVALID_UPDATE_VERSION, message)


def _check(update: FeatureUpdate, current: int, node_id: int, others: Sequence[NodeFeatures]) -> None:
    """Check the rules of every feature."""
    if update.upgrade_type not in set(UpgradeType):
        raise _refused(update, "The controller does not support the given upgrade type.")
    if update.level < 0:
        raise _refused(update, "A feature version cannot be less than 0.")
    if update.name not in SUPPORTED_FEATURES:
        raise _refused(update, f"Local controller {node_id} does not support this feature.")
    lowest, highest = SUPPORTED_FEATURES[update.name]
    if not lowest <= update.level <= highest:
        raise _refused(update, f"Local controller {node_id} only supports versions {lowest}-{highest}")
    for node in others:
        lowest, highest = node.ranges.get(update.name, (0, 0))
        if not lowest <= update.level <= highest:
            why = f"only supports versions {lowest}-{highest}" if highest else "does not support this feature."
            raise _refused(update, f"{node.name} {why}")
    if update.level < current and update.upgrade_type == UpgradeType.UPGRADE:
        message = (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade."
        )
        raise _refused(update, message)
    if update.level > current and update.upgrade_type != UpgradeType.UPGRADE:
        raise _refused(update, "Can't downgrade to a newer version.")


def _check_metadata_version(update: FeatureUpdate, current: int) -> None:
    """Allow a lower metadata.version only if the levels in between have no new records, which would be lost."""
    if any(update.level < level <= current for level in CHANGED_METADATA_LEVELS):
        if update.upgrade_type == UpgradeType.UNSAFE_DOWNGRADE:
            why = "Unsafe metadata downgrade is not supported in this version."
        else:
            why = "Refusing to perform the requested downgrade because it might delete metadata information."
        message = f"Unsupported {METADATA_VERSION} downgrade from {current} to {update.level}. {why}"
        raise Refused(ErrorCode.INVALID_UPDATE_VERSION, message)


def _same_min_insync_replicas(image: MetadataImage, value: int) -> list[MetadataRecord]:
    """Set one value for all brokers, and remove the brokers' own values."""
    found: list[tuple[str, str | None]] = []
    if MIN_INSYNC_REPLICAS not in image.config(ResourceType.BROKER, ""):
        found.append(("", str(value)))
    found += [
        (name, None)
        for (kind, name), settings in image.configs.items()
        if kind == ResourceType.BROKER and name and MIN_INSYNC_REPLICAS in settings
    ]
    return [
        new_record(
            image.metadata_version,
            ConfigRecord,
            resource_type=ResourceType.BROKER,
            resource_name=name,
            name=MIN_INSYNC_REPLICAS,
            value=text,
        )
        for name, text in found
    ]
