"""Snapshot files of the metadata log."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.metadata_snapshot import (
    Quorum,
    SnapshotId,
    build_snapshot,
    read_snapshot,
    snapshots_in,
    write_snapshot,
)
from metadata.registration import feature_records
from metadata.snapshot import image_records
from protocol.messages.data import VotersRecord
from protocol.messages.data.control_records import Endpoint, KRaftVersionFeature, VotersVoter
from storage.errors import CorruptFile
from storage.fs import LOCAL
from tests.support.images import cluster
from tests.support.metadata_log import CLEAN_SHUTDOWN


def a_voter() -> Quorum:
    voter = VotersVoter(
        voter_id=1,
        voter_directory_id=b"directory-id-16b",
        endpoints=[Endpoint(name="CONTROLLER", host="localhost", port=9093)],
        kraft_version_feature=KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
    )
    return Quorum(1, VotersRecord(voters=[voter]))


def test_bootstrap_checkpoint_of_kafka_is_read():
    """The feature levels with which a directory was formatted."""
    assert read_snapshot(LOCAL, str(CLEAN_SHUTDOWN / "bootstrap.checkpoint")).records == feature_records()


def test_bootstrap_checkpoint_has_the_bytes_that_kafka_writes():
    """Except the time, which Kafka reads for each of its three batches."""
    theirs = (CLEAN_SHUTDOWN / "bootstrap.checkpoint").read_bytes()
    ours = build_snapshot(feature_records(), 1795261449796)

    assert len(ours) == len(theirs)
    assert ours[:83] == theirs[:17] + ours[17:21] + theirs[21:27] + ours[27:43] + theirs[43:83]


def test_snapshot_is_read_as_it_was_written(tmp_path: Path):
    """Records and voters; several batches of them."""
    records = [record for _ in range(300) for record in image_records(cluster())]
    snapshot_id = SnapshotId(4711, 3)
    data = build_snapshot(records, 1000, epoch=3, last_contained_ms=999, quorum=a_voter())
    write_snapshot(LOCAL, str(tmp_path), snapshot_id, data)

    assert [file.name for file in tmp_path.iterdir()] == ["00000000000000004711-0000000003.checkpoint"]
    assert snapshots_in(LOCAL, str(tmp_path)) == [snapshot_id]
    read = read_snapshot(LOCAL, str(tmp_path / snapshot_id.file_name))
    assert read.records == records
    assert read.quorum == a_voter()


@pytest.mark.parametrize("damage", ["cut", "flip", "empty"])
def test_damaged_snapshot_is_refused(tmp_path: Path, damage: str):
    """An incomplete or changed file must not be used as the cluster's state."""
    data = bytearray(build_snapshot(image_records(cluster()), 1000))
    if damage == "cut":
        del data[-75:]
    elif damage == "flip":
        data[150] ^= 1
    else:
        data.clear()
    (tmp_path / "x").write_bytes(data)

    with pytest.raises(CorruptFile):
        read_snapshot(LOCAL, str(tmp_path / "x"))


def test_snapshots_are_found_oldest_first(tmp_path: Path):
    """Other files, including incomplete ones, are ignored."""
    names = [SnapshotId(20, 1).file_name, SnapshotId(3, 2).file_name, "x.checkpoint"]
    for name in [*names, SnapshotId(50, 1).file_name + ".tmp", "00000000000000000000.log"]:
        (tmp_path / name).touch()

    assert snapshots_in(LOCAL, str(tmp_path)) == [SnapshotId(3, 2), SnapshotId(20, 1)]
