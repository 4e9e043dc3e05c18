"""A node's start with logs that the metadata lack or describe differently."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from broker.startup.node import open_node
from metadata.framing import new_record
from metadata.replica_placement import new_partition
from protocol.messages.cluster_metadata import PartitionChangeRecord, RemoveTopicRecord, TopicRecord
from storage.errors import DirectoryRefused, LogOffline
from storage.fs import FileSystem
from tests.support.logs import append, batch, opened
from tests.support.nodes import TOPIC_ID, an_orders_topic, config, contents, crash, start, take_snapshot, write


@pytest.mark.parametrize(("name", "index"), [("lost", 0), ("orders", 5)])
def test_start_with_a_log_without_a_topic_is_refused(tmp_path: Path, name: str, index: int):
    """Neither the partition nor its deletion is in the metadata log, which may be the wrong one."""
    node = start(tmp_path)
    an_orders_topic(node)
    topic_id = TOPIC_ID if name == "orders" else b"another-topic-id"
    append(node.logs.create(name, index, topic_id, config(Path("/x")).log_config(), 2000), batch())
    node.close(3000)
    before = contents(tmp_path)
    with pytest.raises(DirectoryRefused, match=f"{name}-{index}: the metadata log .* knows neither this partition nor"):
        start(tmp_path)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("clean", [True, False])
def test_empty_log_without_a_topic_is_set_aside(tmp_path: Path, clean: bool):
    """A power failure can leave it: the creation of its topic was not acknowledged yet."""
    node = start(tmp_path)
    an_orders_topic(node)
    node.logs.create("lost", 0, b"another-topic-id", config(Path("/x")).log_config(), 2000)
    (tmp_path / "gone-0").mkdir()
    if clean:
        node.close(3000)
    else:
        crash(node)
    again = start(tmp_path)

    assert ("lost", 0) not in again.logs.logs | again.logs.unopened
    assert len(list(tmp_path.glob("*-0.*-stray"))) == 2
    again.close(4000)


@pytest.mark.parametrize("name", ["notes.txt", "old.log", "folder", f"{7:020d}.log", f"{0:020d}.log.1.corrupt"])
def test_directory_with_other_content_is_not_empty(tmp_path: Path, name: str):
    """Files of others, a log that had records before, what recovery cut off."""
    start(tmp_path).close(3000)
    (tmp_path / "lost-0").mkdir()
    if name == "folder":
        (tmp_path / "lost-0" / name).mkdir()
    else:
        (tmp_path / "lost-0" / name).touch()
    with pytest.raises(DirectoryRefused, match="lost-0: the metadata log"):
        start(tmp_path)


def test_log_of_a_topic_deleted_long_ago_is_set_aside(tmp_path: Path):
    """Its disk was offline. The deletion is older than the newest snapshot, but the log still has it."""
    node = start(tmp_path)
    an_orders_topic(node)
    write(node, new_record(30, RemoveTopicRecord, topic_id=TOPIC_ID))
    take_snapshot(node)
    crash(node)
    again = start(tmp_path)

    assert again.logs.logs == {}
    assert len(list(tmp_path.glob("orders-0.*-stray"))) == 1
    again.close(4000)


def test_log_of_a_topic_in_an_old_snapshot_is_set_aside(tmp_path: Path):
    """The newest snapshot does not have the topic any more, and the log begins there: the topic was deleted."""
    node = start(tmp_path)
    an_orders_topic(node)
    take_snapshot(node)
    write(node, new_record(30, RemoveTopicRecord, topic_id=TOPIC_ID))
    take_snapshot(node)
    end = node.metadata_log.end_offset
    node.metadata_log.partition_log.roll(end, 2500)
    crash(node)
    for file in (tmp_path / "__cluster_metadata-0").glob("00000000000000000000.*"):
        file.unlink()
    again = start(tmp_path)

    assert again.metadata_log.partition_log.log_start_offset == end
    assert len(list(tmp_path.glob("orders-0.*-stray"))) == 1
    again.close(4000)


def test_interrupted_deletion_is_completed(tmp_path: Path):
    """The metadata log has the deletion. A later topic of the same name is another topic."""
    node = start(tmp_path)
    an_orders_topic(node)
    write(node, new_record(30, RemoveTopicRecord, topic_id=TOPIC_ID))
    crash(node)
    again = start(tmp_path)

    assert again.logs.logs == {}
    assert len(list(tmp_path.glob("orders-0.*-delete"))) == 1
    assert not list(tmp_path.glob("*-stray"))
    again.close(4000)


@pytest.mark.parametrize("bit", range(8))
def test_log_with_a_flipped_bit_in_its_topic_id_is_adopted(tmp_path: Path, bit: int):
    """Its records belong to the topic of that name, as ids of two topics differ in more than a character."""
    node = start(tmp_path)
    an_orders_topic(node)
    node.close(3000)
    path = tmp_path / "orders-0/partition.metadata"
    for position in range(path.stat().st_size - 22, path.stat().st_size, 7):
        data = bytearray(path.read_bytes())
        data[position] ^= 1 << bit
        path.write_bytes(data)
        node = start(tmp_path)
        assert opened(node.logs, "orders").topic_id == TOPIC_ID
        node.close(3000)
    assert not list(tmp_path.glob("*-stray"))


@pytest.mark.parametrize("content", [None, "garbage"])
def test_log_without_topic_id_is_adopted(tmp_path: Path, content: str | None):
    """By its name. Apache Kafka would treat it as stray."""
    node = start(tmp_path)
    an_orders_topic(node)
    crash(node)
    file = tmp_path / "orders-0/partition.metadata"
    before = file.read_text()
    file.unlink()
    if content is not None:
        file.write_text(content)
    again = start(tmp_path)

    assert file.read_text() == before
    assert opened(again.logs, "orders").topic_id == TOPIC_ID
    crash(again)


def test_logs_with_exchanged_topic_ids_are_refused(tmp_path: Path):
    """Their directories or only their files were exchanged. Without the files, the directories' names count."""
    node = start(tmp_path)
    an_orders_topic(node)
    others = b"the-others-id-16"
    node.logs.create("others", 0, others, config(Path("/x")).log_config(), 2000)
    topic = new_record(30, TopicRecord, name="others", topic_id=others)
    write(node, topic, new_partition(node.image, others, 0, [1], manual=False))
    node.close(3000)
    one, two = (tmp_path / name / "partition.metadata" for name in ("orders-0", "others-0"))
    right = one.read_bytes(), two.read_bytes()
    one.write_bytes(right[1])
    two.write_bytes(right[0])
    before = contents(tmp_path)
    with pytest.raises(DirectoryRefused, match=r"orders-0: has the topic id of others.* remove that file"):
        start(tmp_path)
    assert contents(tmp_path) == before

    one.unlink()
    two.unlink()
    again = start(tmp_path)
    assert (one.read_bytes(), two.read_bytes()) == right
    assert {name: each.topic_id for (name, _), each in again.logs.logs.items()} == {
        "orders": TOPIC_ID,
        "others": others,
    }
    again.close(4000)


def test_log_unreadable_without_descriptors_waits(tmp_path: Path):
    """Its deleted records stay deleted: it is not taken for a missing log."""

    class Exhausted(FileSystem):
        is_exhausted = True

        def _check(self, path: str) -> None:
            if self.is_exhausted and "/orders-0" in path:
                raise OSError(errno.EMFILE, "Too many open files")

        def names(self, path: str):  # type: ignore[no-untyped-def]
            self._check(path)
            return super().names(path)

        def list(self, path: str):  # type: ignore[no-untyped-def]
            self._check(path)
            return super().list(path)

        def read_file(self, path: str, *args: int) -> bytes:
            self._check(path)
            return super().read_file(path, *args)

    node = start(tmp_path)
    an_orders_topic(node)
    log = node.logs.logs["orders", 0]
    for _ in range(10):
        append(log, batch())
    log.delete_records(5)
    node.close(3000)
    fs = Exhausted()
    again = open_node(config(tmp_path), 4000, fs=fs)
    assert list(again.logs.unopened) == [("orders", 0)]
    values = config(tmp_path).log_config()
    with pytest.raises(LogOffline, match="Too many open files"):
        again.logs.create("orders", 0, TOPIC_ID, values, 4000, is_new=False)
    fs.is_exhausted = False
    log = again.logs.create("orders", 0, TOPIC_ID, values, 4000, is_new=False)
    assert (log.log_start_offset, log.log_end_offset) == (5, 10)
    again.close(5000)


def test_log_of_an_older_topic_of_that_name_is_removed(tmp_path: Path):
    """That topic was deleted while the log's disk was offline, and then created again."""
    node = start(tmp_path)
    node.logs.create("orders", 0, b"another-topic-id", config(Path("/x")).log_config(), 2000)
    for topic_id in (b"another-topic-id", TOPIC_ID):
        write(node, new_record(30, TopicRecord, name="orders", topic_id=topic_id))
        write(node, new_partition(node.image, topic_id, 0, [1], manual=False))
        if topic_id != TOPIC_ID:
            write(node, new_record(30, RemoveTopicRecord, topic_id=topic_id))
    node.close(3000)
    again = start(tmp_path)

    assert again.logs.logs == {}
    assert len(list(tmp_path.glob("orders-0.*-delete"))) == 1
    again.close(4000)


def test_start_with_a_log_of_another_topic_of_that_name_is_refused(tmp_path: Path):
    """Its topic id differs, and no deletion of that topic is recorded."""
    node = start(tmp_path)
    append(node.logs.create("orders", 0, b"another-topic-id", config(Path("/x")).log_config(), 2000), batch())
    topic = new_record(30, TopicRecord, name="orders", topic_id=TOPIC_ID)
    write(node, topic, new_partition(node.image, TOPIC_ID, 0, [1], manual=False))
    node.close(3000)
    before = contents(tmp_path)
    with pytest.raises(DirectoryRefused, match=r"orders-0: the metadata log .* knows neither"):
        start(tmp_path)
    assert contents(tmp_path) == before


def test_log_of_a_replica_elsewhere_is_set_aside(tmp_path: Path):
    """Although its topic has this partition."""
    node = start(tmp_path)
    an_orders_topic(node)
    moved = {"isr": [2], "leader": 2, "replicas": [2], "removing_replicas": [], "adding_replicas": []}
    write(node, new_record(30, PartitionChangeRecord, partition_id=0, topic_id=TOPIC_ID, **moved))
    node.close(3000)
    again = start(tmp_path)

    assert (list(again.logs.logs), list(again.logs.unopened)) == ([], [])
    assert len(list(tmp_path.glob("orders-0.*-stray"))) == 1
    again.close(4000)
