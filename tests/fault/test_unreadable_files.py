"""Files and directories that the broker's user may not read, as after root has restored a backup.

As with Apache Kafka 4.4.0 on the same directories, a start is refused if the metadata directory is concerned, and
otherwise the log directory is offline, with the path as the reason. No file of a partition changes.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker.startup.node import Node, open_node
from config import load
from metadata.framing import new_record
from metadata.registration import assign_directories
from metadata.replica_placement import new_partition
from protocol.messages.cluster_metadata import TopicRecord
from storage.errors import LogOffline, StorageError
from tests.support.logs import T0, append, batch, opened, read_all
from tests.support.nodes import contents, write

_NOBODY = 65534
_SEGMENT = "b/in-b-0/00000000000000000000"


def start(root: Path) -> Node:
    """Start on two log directories; a has the metadata."""
    keys = {"node.id": "1", "listeners": "PLAINTEXT://127.0.0.1:9092", "log.dirs": f"{root}/a,{root}/b"}
    return open_node(load(None, overrides=keys), 1000)


def create(node: Node, name: str, index: int) -> None:
    """Create a topic of one partition in the log directory with that index, with a record: its name."""
    topic_id = name.encode().ljust(16, b"-")
    write(node, new_record(30, TopicRecord, name=name, topic_id=topic_id))
    write(node, new_partition(node.image, topic_id, 0, [1], manual=False))
    directory = node.logs.directories[index]
    node.logs.preferred[name, 0] = directory
    log = node.logs.create(name, 0, topic_id, load(None, overrides={"log.dirs": "/x"}).log_config(), 2000)
    write(node, *assign_directories(node.image, 1, [(topic_id, 0, node.directory_ids[directory.path])]))
    append(log, batch(name.encode()))


@pytest.fixture
def root() -> Iterator[Path]:
    """Return a directory of a user without privileges, with data of a stopped broker; the test is that user."""
    directory = Path(tempfile.mkdtemp())  # pytest's own directories are closed to other users
    is_root = os.geteuid() == 0
    if is_root:
        os.chown(directory, _NOBODY, _NOBODY)
        os.setegid(_NOBODY)
        os.seteuid(_NOBODY)
    try:
        node = start(directory)
        create(node, "in-a", 0)
        create(node, "in-b", 1)
        node.close(3000)
        yield directory
    finally:
        if is_root:
            os.seteuid(0)
            os.setegid(0)
        shutil.rmtree(directory)


@pytest.mark.parametrize(
    "path",
    [
        *("b", "b/in-b-0", f"{_SEGMENT}.log", "b/meta.properties", "b/in-b-0/leader-epoch-checkpoint"),
        "b/recovery-point-offset-checkpoint",
    ],
)
def test_unreadable_data_takes_its_directory_offline(root: Path, path: str) -> None:
    before = contents(root / "b/in-b-0")
    mode = (root / path).stat().st_mode
    (root / path).chmod(0)

    node = start(root)
    if ("in-b", 0) in node.logs.unopened:  # the first use opens its files
        with pytest.raises(LogOffline):
            read_all(opened(node.logs, "in-b"))
    failure = node.logs.directories[-1].failure or ""
    served = read_all(opened(node.logs, "in-a"))
    node.close(4000)

    (root / path).chmod(mode)
    assert str(root / path) in failure
    assert "Permission denied" in failure
    assert [record.value for record in served] == [b"in-a"]
    assert contents(root / "b/in-b-0") == before
    node = start(root)
    assert [record.value for record in read_all(opened(node.logs, "in-b"))] == [b"in-b"]
    node.close(5000)


def _many(root: Path) -> None:
    """Let a stopped broker have a log with entries in its indexes."""
    node = start(root)
    for number in range(1, 30):
        append(opened(node.logs, "in-b"), batch(b"%d" % number * 500, timestamp=T0 + number))
    node.close(3500)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_unreadable_index_takes_its_directory_offline_when_it_is_needed(root: Path, suffix: str) -> None:
    """Apache Kafka opens all indexes at the start."""
    _many(root)
    index = root / f"{_SEGMENT}{suffix}"
    index.chmod(0)
    node = start(root)

    with pytest.raises(LogOffline, match=f"{suffix}'"):
        opened(node.logs, "in-b").offset_for_timestamp(T0 + 25)
    node.close(4000)

    index.chmod(0o600)
    node = start(root)
    assert len(read_all(opened(node.logs, "in-b"), 25)) == 5
    node.close(5000)


def test_unwritable_partition_directory_goes_offline_at_a_new_file(root: Path) -> None:
    """Apache Kafka takes its log directory offline at the start."""
    (root / "b/in-b-0").chmod(0o500)
    node = start(root)
    log = opened(node.logs, "in-b")
    append(log, batch(b"in the old segment"))

    log.config = replace(log.config, segment_bytes=100)
    with pytest.raises(LogOffline, match="Permission denied"):
        append(log, batch(b"in a new segment"))
    node.close(4000)

    (root / "b/in-b-0").chmod(0o700)
    node = start(root)
    values = [record.value for record in read_all(opened(node.logs, "in-b"))]
    assert values == [b"in-b", b"in the old segment"]
    node.close(5000)


def test_records_are_served_without_the_file_of_the_topic_id(root: Path) -> None:
    """The metadata log has the id, too."""
    _many(root)
    (root / "b/in-b-0/partition.metadata").chmod(0)

    node = start(root)

    assert len(read_all(opened(node.logs, "in-b"), 25)) == 5
    node.close(4000)


@pytest.mark.parametrize(
    "path", ["a", "a/meta.properties", "a/__cluster_metadata-0", "a/__cluster_metadata-0/00000000000000000000.log"]
)
@pytest.mark.parametrize("mode", [0, 0o300])
def test_unreadable_metadata_stops_the_start(root: Path, path: str, mode: int) -> None:
    """Though the user may write in the directory with the mode 300, a new metadata log would hide the topics."""
    before = contents(root)
    own_mode = (root / path).stat().st_mode
    (root / path).chmod(mode)

    with pytest.raises((StorageError, OSError), match="Permission denied") as refused:
        start(root)

    (root / path).chmod(own_mode)
    assert str(root / "a") in str(refused.value)
    assert contents(root) == before
