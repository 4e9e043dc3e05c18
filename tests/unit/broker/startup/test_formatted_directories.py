"""The first start on directories that Apache Kafka 4.3 and 4.4 have formatted, and nobody has used.

Release 4.4 formats with a snapshot at offset 0 instead of bootstrap.checkpoint (KIP-1170).
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from controller.metadata_snapshot import BOOTSTRAP_FILE, ZERO_CHECKPOINT, build_snapshot
from metadata.framing import MetadataRecord, new_record
from metadata.registration import feature_levels, feature_records
from protocol.messages.cluster_metadata import FeatureLevelRecord
from security.sasl.scram_credential import BY_SASL_NAME
from storage.errors import CorruptFile, DirectoryRefused
from tests.support.metadata_log import stored_records
from tests.support.nodes import contents, crash, start, write

FORMATTED = Path(__file__).parents[3] / "data" / "formatted"
FEATURES_4_3 = {
    "metadata.version": 30,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}
#: By name: whether the log names the voter.
RELEASES_4_3 = {
    "v4.3.1": True,
    "v4.3.1-static": False,
    "v4.4.0-release-4.3": True,
    "v4.4.0-release-4.3-static": False,
    "v4.4.0-release-4.3-user": True,
}


def formatted(name: str, root: Path) -> Path:
    return Path(shutil.copytree(FORMATTED / name, root / "logs"))


def first_names(directory: Path) -> list[str]:
    """Return the types of the first records in the log, up to the end of the bootstrap transaction."""
    segment = directory / "__cluster_metadata-0/00000000000000000000.log"
    names = [each.message.name for each in stored_records(segment) if isinstance(each, MetadataRecord)]
    return names[: names.index("EndTransactionRecord") + 1]


@pytest.mark.parametrize("name", RELEASES_4_3)
def test_formatted_directory_keeps_its_features(name: str, tmp_path: Path):
    """They are in the log as the bootstrap transaction, where any later start finds them."""
    directory = formatted(name, tmp_path)
    names = ["FeatureLevelRecord"] * 6 + ["UserScramCredentialRecord"] * name.endswith("user")
    for number in range(2):
        node = start(directory, 1000 + number)
        assert node.image.features == FEATURES_4_3
        assert node.metadata_log.quorum.kraft_version == RELEASES_4_3[name]
        assert node.metadata_log.voters == (1,) * (RELEASES_4_3[name] or number)
        assert node.cluster_id == "AAAAAAAAQACAAAAAAAAAAQ"
        node.close(2000)
        assert first_names(directory) == ["BeginTransactionRecord", *names, "ConfigRecord", "EndTransactionRecord"]


def test_user_of_a_formatted_directory_can_log_in(tmp_path: Path):
    """kafka-storage format --add-scram."""
    node = start(formatted("v4.4.0-release-4.3-user", tmp_path))
    assert list(node.image.scram_credentials) == [("alice", BY_SASL_NAME["SCRAM-SHA-256"].value)]
    node.close(2000)


@pytest.mark.parametrize("static", [True, False])
def test_directory_of_4_4_keeps_its_features(static: bool, tmp_path: Path):
    """The level of 4.4, which Apache Kafka 4.3 does not open."""
    node = start(formatted("v4.4.0-static" if static else "v4.4.0", tmp_path))
    assert node.image.features == {**FEATURES_4_3, "metadata.version": 33, "share.version": 2}
    node.close(2000)


@pytest.mark.parametrize("place", [ZERO_CHECKPOINT, BOOTSTRAP_FILE])
def test_newer_feature_level_is_refused(place: str, tmp_path: Path):
    """Nothing is written, so the newer release opens the directory as before."""
    directory = formatted("v4.4.0-release-4.3" if place == ZERO_CHECKPOINT else "v4.3.1", tmp_path)
    path = directory / ("__cluster_metadata-0" if place == ZERO_CHECKPOINT else "") / place
    path.write_bytes(build_snapshot(feature_records({**FEATURES_4_3, "metadata.version": 34}), 1000))
    (directory / ".lock").touch()
    before = contents(directory)
    with pytest.raises(DirectoryRefused, match=r"is at metadata.version 34, and this broker knows 7 to 33"):
        start(directory)
    assert contents(directory) == before


def test_first_snapshot_has_precedence(tmp_path: Path):
    """As in Apache Kafka 4.4, over bootstrap.checkpoint."""
    directory = formatted("v4.4.0-release-4.3", tmp_path)
    older = build_snapshot(feature_records({"metadata.version": 25}), 1000)
    (directory / BOOTSTRAP_FILE).write_bytes(older)
    node = start(directory)
    assert node.image.features == FEATURES_4_3
    node.close(2000)


@pytest.mark.parametrize("place", [ZERO_CHECKPOINT, BOOTSTRAP_FILE])
def test_snapshot_without_metadata_version_is_refused(place: str, tmp_path: Path):
    """Its other records could not be written in the right version."""
    directory = formatted("v4.3.1", tmp_path)
    data = build_snapshot([new_record(30, FeatureLevelRecord, name="group.version", feature_level=1)], 1000)
    path = directory / ("__cluster_metadata-0" if place == ZERO_CHECKPOINT else "") / place
    path.write_bytes(data)
    with pytest.raises(CorruptFile, match=r"has no level of metadata.version"):
        start(directory)


def test_log_without_features_gets_them(tmp_path: Path):
    """Earlier versions served such a directory without writing its features: Apache Kafka did not open it any more."""
    directory = formatted("v4.4.0-release-4.3", tmp_path)
    node = start(directory)
    write(node, *(new_record(30, FeatureLevelRecord, name=name, feature_level=0) for name in FEATURES_4_3))
    crash(node)
    node = start(directory)
    assert node.image.features == FEATURES_4_3
    node.close(2000)
    records = stored_records(directory / "__cluster_metadata-0/00000000000000000000.log")
    assert feature_levels([each for each in records if isinstance(each, MetadataRecord)]) == FEATURES_4_3
