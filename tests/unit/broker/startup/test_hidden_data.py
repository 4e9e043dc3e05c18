"""A start never begins an empty metadata log beside data: it refuses, names the directory and the remedy, and changes
nothing.

Each test changes log.dirs, metadata.log.dir or the directories of a stopped broker, which had its metadata log and
topics in them.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.startup.node import Node, open_node
from config import BrokerConfig, load
from controller.directory_checks import METADATA_LOG
from metadata.framing import new_record
from metadata.registration import assign_directories
from metadata.replica_placement import new_partition
from protocol.messages.cluster_metadata import ConfigRecord, TopicRecord
from storage.errors import CorruptFile, DirectoryRefused
from storage.fs import LOCAL
from tests.support.logs import append, batch, opened, read_all
from tests.support.nodes import contents, crash, state, take_snapshot, write


def config(root: Path, names: str, metadata: str | None = None) -> BrokerConfig:
    """Return a configuration with the directories of these names, separated by commas."""
    dirs = ",".join(f"{root}/{name}" for name in names.split(","))
    keys = {"node.id": "1", "listeners": "PLAINTEXT://127.0.0.1:9092", "log.dirs": dirs}
    return load(None, overrides=keys if metadata is None else {**keys, "metadata.log.dir": f"{root}/{metadata}"})


def start(root: Path, names: str = "a,b", metadata: str | None = None) -> Node:
    return open_node(config(root, names, metadata), 1000)


def create(node: Node, name: str, index: int = 0) -> None:
    """Create a topic of one partition in the log directory with that index, with a record: its name."""
    topic_id = name.encode().ljust(16, b"-")
    write(node, new_record(30, TopicRecord, name=name, topic_id=topic_id))
    write(node, new_partition(node.image, topic_id, 0, [1], manual=False))
    directory = node.logs.directories[index]
    node.logs.preferred[name, 0] = directory
    log = node.logs.create(name, 0, topic_id, config(Path("/x"), "x").log_config(), 2000)
    write(node, *assign_directories(node.image, 1, [(topic_id, 0, node.directory_ids[directory.path])]))
    append(log, batch(name.encode()))


def used(root: Path, names: str = "a,b", metadata: str | None = None) -> None:
    """Run a broker with a topic in each directory, named in-a, in-b and so on."""
    node = start(root, names, metadata)
    for index, name in enumerate(names.split(",")):
        create(node, f"in-{name}", index)
    node.close(3000)


def refuse(root: Path, names: str, metadata: str | None, reason: str) -> None:
    """Check that a start is refused for this reason, and that nothing was changed."""
    before = contents(root)
    with pytest.raises(DirectoryRefused, match=reason):
        start(root, names, metadata)
    assert contents(root) == before


def still_has(root: Path, *topics: str, names: str = "a,b", metadata: str | None = None) -> None:
    """Check that a start with the old configuration has these topics with their records, and no other."""
    node = start(root, names, metadata)
    assert sorted(node.image.topics_by_name) == sorted(topics)
    for topic in topics:
        assert [record.value for record in read_all(opened(node.logs, topic))] == [topic.encode()]
    assert not list(root.glob("*/*-stray"))
    node.close(4000)


def test_metadata_log_that_cannot_be_read_counts_as_data(tmp_path: Path) -> None:
    """A link that leads to itself cannot be listed by any user, like a directory without permission."""
    used(tmp_path)
    (tmp_path / "a" / METADATA_LOG).rename(tmp_path / "log")
    (tmp_path / "a" / METADATA_LOG).symlink_to(METADATA_LOG)

    with pytest.raises(DirectoryRefused, match=f"{METADATA_LOG} cannot be read: Too many levels"):
        start(tmp_path)

    (tmp_path / "a" / METADATA_LOG).unlink()
    (tmp_path / "log").rename(tmp_path / "a" / METADATA_LOG)
    still_has(tmp_path, "in-a", "in-b")


# -- another configuration -------------------------------------------------------------------------------------------

NEW_SETTINGS = {
    "another order": ("b,a", None, r"/a: has a metadata log .* metadata directory is .*/b .* Set metadata.log.dir="),
    "metadata.log.dir at a data directory": ("a,b", "b", r"/a: has a metadata log .* metadata directory is .*/b "),
    "a new first directory": ("c,a,b", None, r"/c: has no meta.properties, while .*/a has one: .* metadata.log.dir="),
    "a new metadata.log.dir": ("a,b", "m", r"/m: has no meta.properties, while .*/a has one: is it mounted\?"),
    "without the first directory": ("b", None, r"/b: has no metadata log, while .*/b has partitions \(in-b-0\)"),
    "another first directory": ("c,b", None, r"/c: has no meta.properties, while .*/b has one: is it mounted\?"),
}


@pytest.mark.parametrize("change", NEW_SETTINGS)
def test_changed_configuration_hides_no_topics(change: str, tmp_path: Path):
    """With the old configuration all topics are there again."""
    used(tmp_path)
    refuse(tmp_path, *NEW_SETTINGS[change])
    still_has(tmp_path, "in-a", "in-b")


def test_removed_metadata_log_dir_hides_no_topics(tmp_path: Path):
    """The metadata would be expected in the first of log.dirs."""
    used(tmp_path, metadata="m")
    refuse(tmp_path, "a,b", None, "/a: has no metadata log, while .*/a has partitions")
    still_has(tmp_path, "in-a", "in-b", metadata="m")


def test_two_metadata_logs_are_refused(tmp_path: Path):
    """One of them is of an earlier time. The remedy names both ways."""
    used(tmp_path)
    shutil.copytree(tmp_path / "a" / METADATA_LOG, tmp_path / "b" / METADATA_LOG)
    refuse(tmp_path, "a,b", None, "/b: has a metadata log .* Set metadata.log.dir=.*/b; or, .* move it elsewhere")
    shutil.rmtree(tmp_path / "b" / METADATA_LOG)
    still_has(tmp_path, "in-a", "in-b")


def test_order_of_other_directories_is_free(tmp_path: Path):
    used(tmp_path, "a,b,c")
    node = start(tmp_path, "a,c,b")
    assert sorted(node.image.topics_by_name) == ["in-a", "in-b", "in-c"]
    node.close(4000)
    still_has(tmp_path, "in-a", "in-b", "in-c", names="a,b,c")


def test_partitions_in_the_metadata_directory_are_offline(tmp_path: Path):
    """It was in log.dirs before. Its partitions are not created again, empty, in another directory."""
    used(tmp_path)
    node = start(tmp_path, "b", "a")

    assert [reason for (topic_id, _), reason in node.missing.items() if topic_id.startswith(b"in-a")]
    assert ("in-a", 0) not in node.logs.logs | node.logs.unopened
    node.close(4000)
    still_has(tmp_path, "in-a", "in-b")


def test_topics_that_an_earlier_version_hid_can_be_restored(tmp_path: Path):
    """By the steps of docs/guides/upgrade.md. That version had begun a metadata log and renamed the partitions."""
    used(tmp_path)
    start(tmp_path, "new").close(3000)
    (tmp_path / "new" / METADATA_LOG).rename(tmp_path / "b" / METADATA_LOG)
    for name in "ab":
        (tmp_path / name / f"in-{name}-0").rename(tmp_path / name / f"in-{name}-0.{'1' * 32}-stray")
        (tmp_path / name / "recovery-point-offset-checkpoint").write_text("0\n0\n")
        shutil.copy(tmp_path / "new/.kafka_cleanshutdown", tmp_path / name)
    refuse(tmp_path, "b,a", None, "/a: has a metadata log")

    (tmp_path / "b" / METADATA_LOG).rename(tmp_path / "elsewhere")
    for stray in tmp_path.glob("*/*-stray"):
        stray.rename(stray.with_name(stray.name.partition(".")[0]))
    still_has(tmp_path, "in-a", "in-b")


# -- other contents --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a", "b"])
def test_data_without_meta_properties_is_refused(tmp_path: Path, name: str):
    """The file was lost, or a backup of partitions only was restored. Formatting would give it another identity."""
    used(tmp_path)
    file = tmp_path / name / "meta.properties"
    kept = file.read_bytes()
    file.unlink()
    refuse(
        tmp_path, "a,b", None, f"/{name}: has .*-0, but no meta.properties, .* Restore meta.properties from a backup"
    )
    file.write_bytes(kept)
    still_has(tmp_path, "in-a", "in-b")


@pytest.mark.parametrize("entry", ["backup-2024", f"t-0.{'0' * 32}-stray", f"t-0.{'0' * 32}-delete"])
def test_new_cluster_is_refused_beside_partitions(tmp_path: Path, entry: str):
    """The first start formats empty directories only. A start would remove the last of these."""
    (tmp_path / "a" / entry).mkdir(parents=True)
    (tmp_path / "a" / entry / "file").write_bytes(b"content")
    refuse(tmp_path, "a", None, f"/a: has {re.escape(entry)}, but no meta.properties")


def test_foreign_directory_named_like_a_partition_is_refused(tmp_path: Path):
    """A user's directory in a log directory keeps its name, and its files."""
    used(tmp_path)
    (tmp_path / "b/backup-2024").mkdir()
    (tmp_path / "b/backup-2024/notes.tmp").write_bytes(b"content")
    refuse(tmp_path, "a,b", None, "/b/backup-2024: the metadata log .* knows neither this partition nor a deletion")
    shutil.rmtree(tmp_path / "b/backup-2024")
    still_has(tmp_path, "in-a", "in-b")


@pytest.mark.parametrize("clean", [True, False])
def test_old_copy_of_the_metadata_directory_is_refused(tmp_path: Path, clean: bool):
    """Topics that were created since then are unknown to it. Several are named in one line."""
    used(tmp_path)
    shutil.copytree(tmp_path / "a", tmp_path / "backup")
    node = start(tmp_path)
    for name in ("new-1", "new-2", "new-3", "new-4", "new-5"):
        create(node, name, 1)
    if clean:
        node.close(4000)
    else:
        crash(node)
    (tmp_path / "a").rename(tmp_path / "newest")
    (tmp_path / "backup").rename(tmp_path / "a")
    reason = "was used with a newer metadata log" if clean else r"knows neither .* \(nor of .*new-.*, .* and 1 more\)"
    refuse(tmp_path, "a,b", None, reason)
    shutil.rmtree(tmp_path / "a")
    (tmp_path / "newest").rename(tmp_path / "a")
    still_has(tmp_path, "in-a", "in-b", "new-1", "new-2", "new-3", "new-4", "new-5")


def test_old_metadata_log_can_be_used_on_purpose(tmp_path: Path):
    """No topic was created since then. The message names the file to remove."""
    used(tmp_path)
    shutil.copytree(tmp_path / "a", tmp_path / "backup")
    node = start(tmp_path)
    write(node, new_record(30, ConfigRecord, resource_type=2, resource_name="in-b", name="retention.ms", value="5"))
    node.close(4000)
    shutil.rmtree(tmp_path / "a")
    (tmp_path / "backup").rename(tmp_path / "a")
    refuse(tmp_path, "a,b", None, "/b: was used with a newer metadata log .* remove .*/b/.kafka_cleanshutdown")
    (tmp_path / "b/.kafka_cleanshutdown").unlink()
    still_has(tmp_path, "in-a", "in-b")


def test_old_copy_of_a_data_directory_is_used(tmp_path: Path):
    """Its partitions are known. Newer ones are created again, as in Apache Kafka."""
    used(tmp_path)
    shutil.copytree(tmp_path / "b", tmp_path / "backup")
    node = start(tmp_path)
    create(node, "newer", 1)
    node.close(4000)
    shutil.rmtree(tmp_path / "b")
    (tmp_path / "backup").rename(tmp_path / "b")
    node = start(tmp_path)
    assert [record.value for record in read_all(opened(node.logs, "in-b"))] == [b"in-b"]
    assert not list(tmp_path.glob("*/*-stray"))
    node.close(5000)


def test_copy_of_an_unknown_partition_is_not_removed(tmp_path: Path):
    """A copy that moved to this directory may be the only one left."""
    used(tmp_path)
    future = f"lost-0.{'0' * 32}-future"
    shutil.copytree(tmp_path / "b/in-b-0", tmp_path / "b" / future)
    (tmp_path / "b" / future / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAQACAAAAAAAAAAQ\n")
    refuse(tmp_path, "a,b", None, f"/b/{future}: the metadata log .* knows neither")


# -- the metadata log ------------------------------------------------------------------------------------------------


def emptied(log: Path) -> None:
    for file in log.glob("*.log"):
        file.write_bytes(b"")


def without_segments(log: Path) -> None:
    for file in [*log.glob("0*.log"), *log.glob("*index"), *log.glob("*.snapshot")]:
        file.unlink()


@pytest.mark.parametrize("damage", [emptied, without_segments, shutil.rmtree])
def test_lost_metadata_log_is_refused(tmp_path: Path, damage: Callable[[Path], None]):
    """Its directory is still formatted, and has partitions."""
    used(tmp_path)
    damage(tmp_path / "a" / METADATA_LOG)
    refuse(tmp_path, "a,b", None, "/a: has no metadata log, while .*/a has partitions")


@pytest.mark.parametrize("damage", [emptied, without_segments])
def test_snapshot_beyond_the_end_of_the_log_is_used(tmp_path: Path, damage: Callable[[Path], None]):
    """It has all records before its end, as Apache Kafka relies on, too."""
    used(tmp_path)
    node = start(tmp_path)
    before = state(node.image)
    take_snapshot(node)
    node.close(4000)
    damage(tmp_path / "a" / METADATA_LOG)
    for name in "ab":
        (tmp_path / name / ".kafka_cleanshutdown").unlink()
    again = start(tmp_path)
    assert state(again.image) == before
    again.close(5000)
    still_has(tmp_path, "in-a", "in-b")


def test_cut_metadata_log_keeps_its_snapshot(tmp_path: Path):
    """The damage is before the end of the snapshot, so the log ends there; the damaged part is kept."""
    used(tmp_path)
    node = start(tmp_path)
    before = state(node.image)
    take_snapshot(node)
    crash(node)
    [segment] = (tmp_path / "a" / METADATA_LOG).glob("0*.log")
    data = bytearray(segment.read_bytes())
    data[300] ^= 1
    segment.write_bytes(data)
    again = start(tmp_path)
    assert state(again.image) == before
    assert list((tmp_path / "a" / METADATA_LOG).glob("*.corrupt"))
    again.close(5000)
    still_has(tmp_path, "in-a", "in-b")


def test_damaged_metadata_log_hides_no_topics(tmp_path: Path):
    """Without a snapshot the topics after the damage are unknown. The cut part is kept, and the topics' records too."""
    used(tmp_path)
    [segment] = (tmp_path / "a" / METADATA_LOG).glob("0*.log")
    data = bytearray(segment.read_bytes())
    data[300] ^= 1
    segment.write_bytes(data)
    for _ in range(2):
        with pytest.raises(DirectoryRefused, match=r"-0: the metadata log .* knows neither this partition"):
            start(tmp_path)
        assert not list(tmp_path.glob("*/*-stray"))
    assert list((tmp_path / "a" / METADATA_LOG).glob("*.corrupt"))


def test_damaged_first_snapshot_is_refused(tmp_path: Path):
    """It has the voters and perhaps the first users. The log has nothing in its place yet."""
    start(tmp_path).close(3000)
    without_segments(tmp_path / "a" / METADATA_LOG)
    [snapshot] = (tmp_path / "a" / METADATA_LOG).glob("*.checkpoint")
    snapshot.write_bytes(snapshot.read_bytes()[:-1])
    for name in "ab":
        (tmp_path / name / ".kafka_cleanshutdown").unlink()
    before = contents(tmp_path)
    with pytest.raises(CorruptFile, match=f"{snapshot.name}: .*not written to its end"):
        start(tmp_path)
    assert contents(tmp_path) == before


# -- a start that was interrupted ------------------------------------------------------------------------------------


def test_unmounted_metadata_directory_of_an_idle_broker_is_refused(tmp_path: Path):
    """The other directories had no partitions yet and were killed. They are no half-formatted ones."""
    node = start(tmp_path)
    create(node, "in-a", 0)
    crash(node)
    (tmp_path / "a").rename(tmp_path / "away")
    refuse(tmp_path, "a,b", None, r"/a: has no meta.properties, while .*/b has one: is it mounted\?")
    (tmp_path / "away").rename(tmp_path / "a")
    still_has(tmp_path, "in-a")


class Killed(BaseException):
    """The process ends."""


class Dying(type(LOCAL)):  # type: ignore[misc]
    """The local file system until the call with this number, which ends the process."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __getattribute__(self, name: str):  # type: ignore[no-untyped-def]
        if name in CHANGES:
            if object.__getattribute__(self, "left") == 0:
                raise Killed
            self.left -= 1
        return super().__getattribute__(name)


#: The calls that change a disk.
CHANGES = {"write_file", "rename", "make_directory", "open_write", "write_at", "remove", "truncate", "pwrite", "lock"}


@pytest.mark.parametrize("then", ["a,b", "b,a"])
def test_start_after_an_interrupted_first_start(tmp_path: Path, then: str):
    """Killed at each change of the disk: the same directories start again; in another order they may be refused."""
    refusals: list[str] = []
    for number in range(1000):
        root = tmp_path / str(number)
        try:
            open_node(config(root, "a,b"), 1000, fs=Dying(number))
        except Killed:
            pass
        else:
            break
        before = contents(root)
        try:
            start(root, then).close(2000)
        except DirectoryRefused as refused:
            refusals.append(str(refused))
            assert contents(root) == before
            start(root, "a,b").close(2000)
    assert number > 20
    assert all(then == "b,a" and re.search(r"has a metadata log|is it mounted\?", each) for each in refusals)
