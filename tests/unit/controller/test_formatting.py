"""Checking and formatting log directories."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest

from controller.directory_checks import inspect
from controller.formatting import NodeData, formatted_with, make_ready
from controller.metadata_snapshot import read_snapshot
from metadata.features import BOOTSTRAP_FEATURES
from metadata.image import Endpoint
from metadata.registration import feature_records
from protocol.id_text import id_bytes, id_text
from storage.checkpoints import read_meta_properties
from storage.errors import DirectoryRefused
from storage.fs import LOCAL
from tests.support.metadata_log import CLEAN_SHUTDOWN


def ids():
    numbers = itertools.count(1)
    return lambda: bytes([next(numbers)] * 16)


def start(*directories: Path, node_id: int = 1, new_id=None, **fields) -> NodeData:
    """Check and format, with the metadata in the first directory."""
    paths = [str(path) for path in directories]
    found = inspect(LOCAL, paths, paths[0], node_id)
    for path in directories:
        path.mkdir(exist_ok=True)
    return make_ready(LOCAL, paths, paths[0], node_id, found, new_id=new_id or ids(), now_ms=1000, **fields)


def files(directory: Path) -> dict[str, bytes]:
    return {str(p.relative_to(directory)): p.read_bytes() for p in sorted(directory.rglob("*")) if p.is_file()}


def test_empty_directory_is_formatted(tmp_path: Path):
    """Cluster and directory ids, feature levels, and this node as the only voter."""
    node = start(tmp_path / "a", controllers=[Endpoint("CTRL", "host", 9999, 0)])
    directory_id = node.directory_ids[str(tmp_path / "a")]

    assert list(files(tmp_path / "a")) == [
        "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint",
        "bootstrap.checkpoint",
        "meta.properties",
    ]
    assert formatted_with(LOCAL, str(tmp_path / "a")) == feature_records()
    quorum = read_snapshot(
        LOCAL, str(tmp_path / "a/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint")
    ).quorum
    (voter,) = quorum.voters.voters  # type: ignore[union-attr]
    assert (quorum.kraft_version, voter.voter_id, voter.voter_directory_id) == (1, 1, directory_id)
    assert [(e.name, e.host, e.port) for e in voter.endpoints] == [("CTRL", "host", 9999)]


def test_formatted_directory_is_unchanged(tmp_path: Path):
    """The second start finds the same ids and writes nothing."""
    first = start(tmp_path / "a", tmp_path / "b")
    before = files(tmp_path)

    assert start(tmp_path / "a", tmp_path / "b", new_id=lambda: pytest.fail("no id is needed")) == first
    assert files(tmp_path) == before
    assert len(set(first.directory_ids.values())) == 2


def test_added_directory_joins_the_cluster(tmp_path: Path):
    """log.dirs has one more directory than before."""
    first = start(tmp_path / "a")
    node = start(tmp_path / "a", tmp_path / "b", new_id=lambda: b"9" * 16)

    assert node.cluster_id == first.cluster_id
    assert node.directory_ids == first.directory_ids | {str(tmp_path / "b"): b"9" * 16}
    assert sorted(files(tmp_path / "b")) == ["bootstrap.checkpoint", "meta.properties"]


def test_given_cluster_id_is_used_for_new_clusters_only(tmp_path: Path):
    """As with the option of `format`."""
    assert start(tmp_path / "a", cluster_id="AAAAAAAAQACAAAAAAAAAAQ").cluster_id == "AAAAAAAAQACAAAAAAAAAAQ"
    assert start(tmp_path / "a", cluster_id="BBBBBBBBQACAAAAAAAAAAQ").cluster_id == "AAAAAAAAQACAAAAAAAAAAQ"


def test_directory_of_kafka_is_taken_over(tmp_path: Path):
    """With its ids, and nothing is written."""
    shutil.copytree(CLEAN_SHUTDOWN, tmp_path / "kafka")
    before = files(tmp_path)
    node = start(tmp_path / "kafka")

    assert node.cluster_id == "AAAAAAAAQACAAAAAAAAAAQ"
    assert node.directory_ids == {str(tmp_path / "kafka"): id_bytes("yDpwX_jwsGTgyYrg_1fn0A")}
    assert files(tmp_path) == before


def test_half_formatted_directory_is_formatted_again(tmp_path: Path):
    """A directory is formatted once it has meta.properties."""
    start(tmp_path / "a")
    (tmp_path / "a/meta.properties").unlink()
    node = start(tmp_path / "a", new_id=lambda: b"7" * 16)

    assert node.cluster_id == id_text(b"7" * 16)
    assert read_meta_properties(LOCAL, str(tmp_path / "a")) is not None


def test_format_after_an_interrupted_one_of_another_release(tmp_path: Path):
    """The first snapshot of the interrupted one does not count."""
    start(tmp_path / "a", features={**BOOTSTRAP_FEATURES, "metadata.version": 33}, static_quorum=True)
    (tmp_path / "a/meta.properties").unlink()
    start(tmp_path / "a", static_quorum=True)

    assert formatted_with(LOCAL, str(tmp_path / "a")) == feature_records()


@pytest.mark.parametrize("formatted", [["b"], ["b", "c"]])
def test_interrupted_formatting_continues_after_a_crash(tmp_path: Path, formatted: list[str]):
    """The metadata directory is the last. The cluster id is that of the directories formatted before the crash."""
    paths = [tmp_path / name for name in "abc"]
    cluster_id = start(*paths).cluster_id
    for path in paths:
        (path / ".lock").touch()
        if path.name not in formatted:
            shutil.rmtree(path)
            path.mkdir()
            (path / "meta.properties.tmp").touch()
    node = start(*paths, new_id=iter([b"7" * 16, b"8" * 16]).__next__)

    assert node.cluster_id == cluster_id
    assert all(read_meta_properties(LOCAL, str(path)) is not None for path in paths)


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    start(tmp_path / "a")
    return tmp_path / "a"


def refused(*directories: Path, node_id: int = 1) -> str:
    """Return the reason of the rejection, before which no directory may be changed."""
    parent = directories[0].parent
    before = files(parent)
    with pytest.raises(DirectoryRefused) as caught:
        start(*directories, node_id=node_id)
    assert files(parent) == before
    return str(caught.value)


def test_another_node_is_rejected(ours: Path):
    """node.id differs."""
    remedy = "Set node.id=1, or use another directory"
    assert refused(ours, node_id=2) == f"{ours}: belongs to node 1, but node.id is 2. {remedy}"


def test_another_cluster_is_rejected(ours: Path, tmp_path: Path):
    """The directories belong to different clusters."""
    start(tmp_path / "b", new_id=lambda: b"9" * 16)

    assert "belongs to cluster" in refused(ours, tmp_path / "b")


def test_cluster_of_the_configuration_is_the_directorys(ours: Path):
    """Another id than the directory's is another cluster."""
    wanted = "AAAAAAAAQACAAAAAAAAAAQ"
    found = inspect(LOCAL, [str(ours)], str(ours), 1)[str(ours)].cluster_id
    assert inspect(LOCAL, [str(ours)], str(ours), 1, found)
    with pytest.raises(DirectoryRefused, match=f"belongs to cluster {found}, but pybroker.cluster.id is {wanted}"):
        inspect(LOCAL, [str(ours)], str(ours), 1, wanted)


def test_copied_directory_is_rejected(ours: Path, tmp_path: Path):
    """It has the same directory.id."""
    shutil.copytree(ours, tmp_path / "b")

    assert "one is a copy of the other" in refused(ours, tmp_path / "b")


def test_unmounted_metadata_directory_is_rejected(ours: Path, tmp_path: Path):
    """Formatting it would begin another cluster."""
    (tmp_path / "new").mkdir()

    assert "is it mounted?" in refused(tmp_path / "new", ours)


def test_metadata_log_without_meta_properties_is_rejected(ours: Path):
    """It belongs to an unknown node."""
    (ours / "meta.properties").unlink()
    (ours / "__cluster_metadata-0/00000000000000000000.log").write_bytes(b"x")

    assert "but no meta.properties" in refused(ours)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("version=0\nbroker.id=1\ncluster.id=x\n", "kept its metadata in ZooKeeper"),
        ("version=7\nnode.id=1\ncluster.id=x\n", "unknown version 7"),
        ("", "cannot be used"),
        ("\x00garbage", "cannot be used"),
    ],
)
def test_invalid_meta_properties_are_rejected(ours: Path, content: str, reason: str):
    """They must not be overwritten."""
    (ours / "meta.properties").write_text(content)

    assert reason in refused(ours)
