"""Directories that would hide a partition's records: renamed ones, two of one partition, a damaged beginning.

The start is refused and changes nothing. The tests change the directories of a stopped broker with `orders-0`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from broker.startup.node import Node
from metadata.framing import new_record
from metadata.registration import assign_directories
from protocol.messages.cluster_metadata import RemoveTopicRecord
from storage.errors import DirectoryRefused
from tests.support import nodes
from tests.support.logs import append, batch, opened, read_all
from tests.support.nodes import TOPIC_ID, an_orders_topic, contents, write

SEGMENT = f"{0:020}.log"
UNIQUE = "1" * 32


def start(root: Path) -> Node:
    return nodes.start(root / "a", log_dirs=f"{root}/a,{root}/b")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return two log directories. The second has a partition with a record."""
    node = start(tmp_path)
    node.logs.preferred["orders", 0] = node.logs.directories[1]
    an_orders_topic(node)
    write(node, *assign_directories(node.image, 1, [(TOPIC_ID, 0, node.directory_ids[f"{tmp_path}/b"])]))
    append(node.logs.logs["orders", 0], batch(b"a record"))
    node.close(3000)
    return tmp_path


@pytest.fixture
def orders(root: Path) -> Path:
    return root / "b/orders-0"


def refuse(root: Path, reason: str) -> None:
    before = contents(root)
    with pytest.raises(DirectoryRefused, match=reason):
        start(root)
    assert contents(root) == before


def still_has_orders(root: Path) -> None:
    node = start(root)
    assert [record.value for record in read_all(opened(node.logs, "orders"))] == [b"a record"]
    assert not list(root.glob("*/*-stray"))
    node.close(4000)


@pytest.mark.parametrize("ending", ["delete", "stray"])
def test_renamed_partition_in_use_is_refused(root: Path, orders: Path, ending: str):
    """The metadata log is older than the deletion, or an earlier version hid the partition."""
    renamed = orders.with_name(f"orders-0.{UNIQUE}-{ending}")
    orders.rename(renamed)
    refuse(root, f"/{renamed.name}: has records of orders-0, .* Rename the directory to orders-0; or, to begin with")
    renamed.rename(orders)
    still_has_orders(root)


@pytest.mark.parametrize("case", ["elsewhere", "deleted", "empty", "in a missing directory", "another topic's"])
def test_renamed_partition_not_in_use_stays(root: Path, orders: Path, case: str):
    """A start looks for no records in it."""
    renamed = root / f"a/orders-0.{UNIQUE}-stray"
    shutil.copytree(orders, renamed)
    if case == "deleted":
        node = start(root)
        write(node, new_record(30, RemoveTopicRecord, topic_id=TOPIC_ID))
        node.close(4000)
    elif case == "empty":
        (renamed / SEGMENT).write_bytes(b"")
        shutil.rmtree(orders)
    elif case == "in a missing directory":
        (root / "b").rename(root / "away")
        (root / "b").touch()
    elif case == "another topic's":
        (renamed / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAQACAAAAAAAAAAQ\n")
        shutil.rmtree(orders)
    start(root).close(5000)
    assert list(root.glob("*/*-stray")) == [renamed]


@pytest.mark.parametrize("second", ["orders-00", "orders-000"])
def test_two_directories_of_a_partition_are_refused(root: Path, orders: Path, second: str):
    """The second one would replace the first. Apache Kafka does not start with them either."""
    shutil.copytree(orders, orders.with_name(second))
    refuse(root, f"/{second}: is the same partition as {orders}. Move the wrong one elsewhere")
    shutil.rmtree(orders.with_name(second))
    still_has_orders(root)


def test_unknown_partition_with_a_damaged_beginning_is_refused(root: Path, orders: Path):
    """Only a log that is zero to its end has no records."""
    lost = orders.with_name("lost-0")
    shutil.copytree(orders, lost)
    (lost / "partition.metadata").unlink()
    (lost / SEGMENT).write_bytes(bytes(2 << 20) + b"content")
    refuse(root, "/lost-0: the metadata log .* knows neither")

    (lost / SEGMENT).write_bytes(bytes(2 << 20))
    start(root).close(4000)
    assert [path.name.partition(".")[0] for path in root.glob("b/*-stray")] == ["lost-0"]
