"""Log directories that are missing or broken at a start: their partitions are reported, not created again."""

from __future__ import annotations

import errno
import logging
import os
import shutil
from pathlib import Path

import pytest

from broker.replicas.partitions import Partitions
from broker.startup.missing_partitions import find_missing, find_unfinished_moves, still_missing
from broker.startup.node import Node, open_node
from config import BrokerConfig, load
from controller.formatting import make_ready
from metadata.framing import new_record
from metadata.partition_registration import LOST_DIRECTORY, NO_LEADER
from metadata.registration import assign_directories
from metadata.replay import replay_all
from metadata.replica_placement import new_partition
from protocol.messages.cluster_metadata import TopicRecord
from runtime.clock import Clock
from storage.checkpoints import read_meta_properties
from storage.errors import DirectoryRefused
from storage.fs import LOCAL, FileSystem
from tests.support.launch import picture
from tests.support.logs import append, batch, opened, read_all

TOPIC_ID = b"topic-id-of-16-b"


def config(root: Path, names: str) -> BrokerConfig:
    dirs = ",".join(f"{root}/{name}" for name in names)
    overrides = {"node.id": "1", "listeners": "PLAINTEXT://127.0.0.1:9092", "log.dirs": dirs}
    return load(None, overrides=overrides)


def start(root: Path, names: str = "abc") -> Node:
    return open_node(config(root, names), 1000)


def write(node: Node, *records) -> None:
    node.metadata_log.append(records, 2000)
    replay_all(node.image, records)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The root of a stopped broker: directories a (with metadata), b and c, and partition 0, 1, 2 of m in each."""
    node = start(tmp_path)
    write(node, new_record(30, TopicRecord, name="m", topic_id=TOPIC_ID))
    for index, name in enumerate("abc"):
        write(node, new_partition(node.image, TOPIC_ID, index, [1], manual=False))
        log = node.logs.create("m", index, TOPIC_ID, config(tmp_path, "abc").log_config(), 2000)
        assert log.path == f"{tmp_path}/{name}/m-{index}"
        placed = (TOPIC_ID, index, node.directory_ids[log.directory.path])
        write(node, *assign_directories(node.image, 1, [placed]))
    node.close(3000)
    return tmp_path


def untouched(root: Path) -> dict[str, object]:
    """Return all files but the metadata log, whose last index entries are written when it is read."""
    return {path: facts for path, facts in picture(root).items() if "__cluster_metadata" not in path}


def leaders(node: Node) -> list[int]:
    return [node.image.topic("m").partitions[index].leader for index in range(3)]


def are_online(node: Node) -> list[bool]:
    """Host the partitions, as the controller would; return which are online."""
    partitions = Partitions(node.logs, 1, Clock(), lambda partition: None, node.missing)
    values = config(Path("/x"), "a").log_config()
    return [partitions.create("m", TOPIC_ID, index, values, is_new=False).online for index in range(3)]


@pytest.mark.parametrize("remount", [False, True])
def test_missing_directory_with_partitions_is_refused(root: Path, remount: bool):
    """Removed or empty, as an unmounted volume. It is not formatted, and works again once it is back."""
    away = (root / "c").rename(root / "away")
    if remount:
        (root / "c").mkdir()
    before = untouched(root)
    with pytest.raises(DirectoryRefused, match=r"/c: has no meta.properties, while .*m-2.*: is it mounted\?"):
        start(root)

    assert untouched(root) == before
    shutil.rmtree(root / "c", ignore_errors=True)
    away.rename(root / "c")
    node = start(root)
    assert leaders(node) == [1, 1, 1]
    assert are_online(node) == [True, True, True]
    node.close(4000)


def test_added_directory_is_formatted_with_a_warning(root: Path, caplog: pytest.LogCaptureFixture):
    """No partition is missing, so it may be intended."""
    node = start(root, "abcd")

    assert (
        f"Log directory {root}/d has no meta.properties (other directories have one): it is formatted as new"
        in caplog.messages
    )
    assert len(node.directory_ids) == 4
    assert leaders(node) == [1, 1, 1]
    node.close(4000)


def test_partitions_of_an_unlisted_directory_are_offline(root: Path, caplog: pytest.LogCaptureFixture):
    """They are not created elsewhere, and are served again once their directory is listed."""
    node = start(root, "ab")

    assert leaders(node) == [1, 1, NO_LEADER]
    assert are_online(node) == [True, True, False]
    assert "Partitions are in a missing log directory: m-2" in caplog.messages
    node.close(4000)
    node = start(root)
    assert leaders(node) == [1, 1, 1]
    assert are_online(node) == [True, True, True]
    node.close(5000)


def test_new_directories_of_a_member_are_reported(root: Path, caplog: pytest.LogCaptureFixture):
    """Its disk was replaced: the controllers know the partitions, and no directory is left of those that had them."""
    node = start(root)
    missing = find_missing(LOCAL, node.image, 1, {})
    assert still_missing(missing, node.image, 1, {}) == missing
    assert len(missing) == 3
    (line,) = caplog.messages[-1:]
    assert line.startswith("All log directories are new")
    assert line.endswith(": m-0, m-1, m-2")
    node.close(4000)


def test_missing_directory_after_a_crash_has_no_leader(root: Path):
    """The metadata still names the broker as their leader."""
    start(root).logs.unlock()
    node = start(root, "ab")

    assert leaders(node) == [1, 1, NO_LEADER]
    node.close(4000)


def test_manually_moved_partition_is_not_missing(root: Path):
    """Its records exist, although the metadata names another directory."""
    (root / "c" / "m-2").rename(root / "b" / "m-2")
    node = start(root, "ab")

    assert leaders(node) == [1, 1, 1]
    assert are_online(node) == [True, True, True]
    node.close(4000)


def test_formatted_directory_replaces_a_lost_one(root: Path, caplog: pytest.LogCaptureFixture):
    """Its partitions are created empty with a warning, as in Apache Kafka after `kafka-storage format`."""
    paths = [f"{root}/{name}" for name in "abc"]
    shutil.rmtree(root / "c")
    (root / "c").mkdir()
    found = {path: properties for path in paths if (properties := read_meta_properties(LOCAL, path)) is not None}
    make_ready(LOCAL, paths, paths[0], 1, found, new_id=lambda: b"7" * 16, now_ms=1000)
    node = start(root)

    assert leaders(node) == [1, 1, 1]
    assert any("are created again, empty: m-2" in message for message in caplog.messages)
    node.close(4000)


def test_broken_directory_goes_offline_alone(root: Path, caplog: pytest.LogCaptureFixture):
    """A file has its path. Apache Kafka also continues with the others."""
    away = (root / "c").rename(root / "away")
    (root / "c").touch()
    failures = []
    node = open_node(config(root, "abc"), 1000, on_failure=failures.append)

    assert [each.path for each in failures] == [f"{root}/c"]
    assert [each.is_online for each in node.logs.directories] == [True, True, False]
    assert leaders(node) == [1, 1, NO_LEADER]
    assert are_online(node) == [True, True, False]
    assert [each.levelno for each in caplog.records] == [logging.ERROR]
    node.close(4000)
    (root / "c").unlink()
    away.rename(root / "c")
    node = start(root)
    assert leaders(node) == [1, 1, 1]
    node.close(5000)


class Refusing(FileSystem):
    """The local file system, but `call` fails below `path`, which looks normal."""

    def __init__(self, call: str, path: str, code: int) -> None:
        def refuse(at: str, *args: object, **named: object) -> object:
            if at.startswith(path):
                raise OSError(code, os.strerror(code), at)
            return getattr(LOCAL, call)(at, *args, **named)

        setattr(self, call, refuse)


@pytest.mark.parametrize("call", ["make_directory", "lock", "replace_file"])
def test_new_directory_that_fails_goes_offline_alone(root: Path, call: str):
    """As a known one does: the disk is full, or a file server denies writes."""
    failures = []
    refusing = Refusing(call, f"{root}/d", errno.EACCES)
    node = open_node(config(root, "abcd"), 1000, fs=refusing, on_failure=failures.append)

    assert [each.path for each in failures] == [f"{root}/d"]
    assert "Permission denied" in failures[0].failure
    assert [Path(path).name for path in node.directory_ids] == ["b", "c", "a"]
    assert leaders(node) == [1, 1, 1]
    assert are_online(node) == [True, True, True]
    node.close(4000)
    node = start(root, "abcd")
    assert all(each.is_online for each in node.logs.directories)
    assert len(node.directory_ids) == 4
    node.close(5000)


def test_unlockable_directory_is_offline(root: Path):
    node = open_node(config(root, "abc"), 1000, fs=Refusing("lock", f"{root}/c", errno.EIO))

    assert [each.is_online for each in node.logs.directories] == [True, True, False]
    assert leaders(node) == [1, 1, NO_LEADER]
    assert are_online(node) == [True, True, False]
    node.close(4000)


@pytest.mark.parametrize("call", ["make_directory", "lock"])
def test_new_cluster_needs_all_directories(tmp_path: Path, call: str):
    with pytest.raises(DirectoryRefused, match="/b: cannot be used: Permission denied"):
        open_node(config(tmp_path, "ab"), 1000, fs=Refusing(call, f"{tmp_path}/b", errno.EACCES))
    start(tmp_path, "ab").close(2000)


@pytest.mark.parametrize(("name", "code"), [("a", errno.EIO), ("c", errno.EMFILE)])
def test_unlockable_metadata_directory_is_refused(root: Path, name: str, code: int):
    """So is a directory that no descriptor was left for, as its disk may be fine."""
    with pytest.raises(DirectoryRefused, match=f"/{name}: cannot be used"):
        open_node(config(root, "abc"), 1000, fs=Refusing("lock", f"{root}/{name}", code))
    start(root).close(4000)


def test_broken_metadata_directory_is_refused(root: Path):
    """Nothing else has the list of topics."""
    shutil.rmtree(root / "a")
    (root / "a").touch()
    with pytest.raises(DirectoryRefused, match="/a: cannot be read: Not a directory"):
        start(root)


def test_new_cluster_is_refused_beside_a_broken_directory(root: Path):
    """That may be of the old cluster."""
    shutil.rmtree(root / "a")
    shutil.rmtree(root / "b")
    shutil.rmtree(root / "c")
    (root / "c").touch()
    with pytest.raises(DirectoryRefused, match="/c: cannot be used"):
        start(root)
    assert [path.name for path in root.iterdir()] == ["c"]


def test_invalid_meta_properties_are_refused(root: Path):
    """As in Apache Kafka: the directory works, but its cluster is unknown."""
    (root / "c" / "meta.properties").write_text("%%garbage")
    with pytest.raises(DirectoryRefused, match=r"/c: meta.properties cannot be used"):
        start(root)


def test_stale_log_of_a_moved_partition_is_set_aside(root: Path, caplog: pytest.LogCaptureFixture):
    """Its disk failed before the log could be removed. The moved log has deleted the records that the stale one has."""
    node = start(root)
    append(opened(node.logs, "m", 0), batch(b"in use"))
    append(opened(node.logs, "m", 1), batch(b"else"))
    node.close(4000)
    shutil.copytree(root / "b/m-1", root / "b/m-0")  # other records of the same topic
    node = start(root)
    assert [record.value for record in read_all(opened(node.logs, "m", 0))] == [b"in use"]
    assert opened(node.logs, "m", 0).path == f"{root}/a/m-0"
    assert len([*root.glob("b/m-0.*-stray")]) == 1
    assert any("renamed to -stray" in message for message in caplog.messages)
    node.close(5000)


def copy_of(path: Path) -> Path:
    """Return the directory of a copy of a log, which a move has begun."""
    return path.with_name(f"{path.name}.{'0' * 32}-future")


def test_partition_with_only_an_unfinished_copy_is_missing(root: Path):
    """A copy beside its log, one of another topic, and one that nobody relies on have nothing to do with it."""
    node = start(root)
    shutil.copytree(root / "b/m-1", copy_of(root / "a/m-1"))
    away = (root / "c/m-2").rename(copy_of(root / "a/m-2"))
    found = find_unfinished_moves(LOCAL, node.image, 1, [f"{root}/{name}" for name in "abc"])
    assert found == {(TOPIC_ID, 2): f"its log directory is missing; {away} is an unfinished copy"}
    assert find_unfinished_moves(LOCAL, node.image, 2, [f"{root}/a"]) == {}
    (away / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAEA")
    assert find_unfinished_moves(LOCAL, node.image, 1, [f"{root}/{name}" for name in "abc"]) == {}
    node.close(4000)


def test_lost_partition_is_missing_until_its_log_is_found(root: Path):
    """The broker has reported that it is in none of the directories of an earlier start."""
    node = start(root)
    write(node, *assign_directories(node.image, 1, [(TOPIC_ID, 2, LOST_DIRECTORY)]))
    in_use = {f"{root}/{name}": read_meta_properties(LOCAL, f"{root}/{name}") for name in "abc"}
    assert find_missing(LOCAL, node.image, 1, in_use) == {}
    (root / "c/m-2").rename(root / "away")
    assert find_missing(LOCAL, node.image, 1, in_use) == {(TOPIC_ID, 2): "its log directory is missing"}
    node.close(4000)
