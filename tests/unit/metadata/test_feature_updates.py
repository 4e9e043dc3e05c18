"""Which feature levels may change, and the records for it."""

from __future__ import annotations

import pytest

from metadata.decision import Refused
from metadata.feature_updates import FeatureDecision, FeatureUpdate, UpgradeType, update_features
from metadata.features import CHANGED_METADATA_LEVELS, MAX_METADATA_VERSION, MIN_METADATA_VERSION
from metadata.framing import new_record
from metadata.image import MetadataImage, ResourceType
from metadata.replay import replay_all
from protocol.error_codes import ErrorCode
from protocol.messages.cluster_metadata import ConfigRecord, FeatureLevelRecord
from tests.support.images import cluster

ELR = "eligible.leader.replicas.version"


def decide(image: MetadataImage, *updates: FeatureUpdate, kraft_version: int = 1) -> FeatureDecision:
    return update_features(image, updates, node_id=1, kraft_version=kraft_version, min_insync_replicas=2)


def at_level(level: int) -> MetadataImage:
    image = cluster()
    replay_all(image, [new_record(30, FeatureLevelRecord, name="metadata.version", feature_level=level)])
    return image


def test_a_level_goes_down_and_up():
    """Level 0 is the same as no feature."""
    image = cluster()
    replay_all(image, decide(image, FeatureUpdate("group.version", 0, UpgradeType.SAFE_DOWNGRADE)).records)
    assert "group.version" not in image.features
    replay_all(image, decide(image, FeatureUpdate("group.version", 1)).records)
    assert image.features["group.version"] == 1


def test_one_rejected_update_rejects_all():
    with pytest.raises(Refused) as refused:
        decide(cluster(), FeatureUpdate("group.version", 0, UpgradeType.SAFE_DOWNGRADE), FeatureUpdate("none", 1))
    assert refused.value.error_code is ErrorCode.INVALID_UPDATE_VERSION
    assert refused.value.message == (
        "Invalid update version 1 for feature none. Local controller 1 does not support this feature."
    )


@pytest.mark.parametrize("level", range(MIN_METADATA_VERSION, MAX_METADATA_VERSION))
def test_metadata_version_may_go_down_without_loss(level: int):
    """From each level to the one below; the levels with new records are Kafka's."""
    update = FeatureUpdate("metadata.version", level, UpgradeType.SAFE_DOWNGRADE)
    if level + 1 in CHANGED_METADATA_LEVELS:
        with pytest.raises(Refused, match="might delete metadata information"):
            decide(at_level(level + 1), update)
        return
    (record,) = decide(at_level(level + 1), update).records
    assert (record.value.name, record.value.feature_level) == ("metadata.version", level)


def test_eligible_leader_replicas_need_a_metadata_version():
    """The same request may raise it."""
    image = at_level(22)
    replay_all(image, [new_record(22, FeatureLevelRecord, name=ELR, feature_level=0)])
    message = "could not be set to 1 because it depends on metadata.version level 23"
    with pytest.raises(Refused, match=message):
        decide(image, FeatureUpdate(ELR, 1))
    decided = decide(image, FeatureUpdate("metadata.version", 23), FeatureUpdate(ELR, 1))
    assert [r.value.name for r in decided.records if r.message is FeatureLevelRecord] == ["metadata.version", ELR]


def test_eligible_leaders_need_one_min_insync_replicas():
    """KIP-966: it is set for the cluster, and removed from single brokers."""
    image = cluster()
    replay_all(image, decide(image, FeatureUpdate(ELR, 0, UpgradeType.SAFE_DOWNGRADE)).records)
    for name, value in (("", None), ("1", "3")):
        fields = {"resource_type": ResourceType.BROKER, "resource_name": name, "name": "min.insync.replicas"}
        replay_all(image, [new_record(30, ConfigRecord, value=value, **fields)])
    replay_all(image, decide(image, FeatureUpdate(ELR, 1)).records)
    assert image.config(ResourceType.BROKER, "") == {"min.insync.replicas": "2"}
    assert image.config(ResourceType.BROKER, "1") == {}


def test_kraft_version_is_returned_separately():
    assert decide(cluster(), FeatureUpdate("kraft.version", 1), kraft_version=0) == FeatureDecision([], 1)
    assert decide(cluster(), FeatureUpdate("kraft.version", 1)) == FeatureDecision([], None)
    with pytest.raises(Refused, match=r"Can't downgrade the version of this feature\.\W*$"):
        decide(cluster(), FeatureUpdate("kraft.version", 0, UpgradeType.UNSAFE_DOWNGRADE))
