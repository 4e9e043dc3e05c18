"""Spark archives topics into Parquet and restores them: each record once, with all fields, and changes are found."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from pybroker.archive.errors import ArchiveError, LogChanged, UnusableTarget
from pybroker.archive.inputs import DirectoryInput
from pybroker.archive.store import Archive
from pybroker.archive.verifying import DIFFERENT, GONE, SAME
from pybroker.source.errors import SourceError
from pybroker.spark import register
from tests.support.brokers import HOST, RunningBroker
from tests.support.data_client import DataClient
from tests.support.eventually import eventually
from tests.support.lake import Lake, archived, archived_count
from tests.support.lake import stored as rows_of
from tests.support.scale import scaled

EPOCH_MS = 1_700_000_000_000
DAY_MS = 86_400_000
PARTITIONS = 2
COUNT = min(scaled(6_000), 500_000)
KILLS = min(scaled(1), 4)
DICE = random.Random(13)


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Callable[[], SparkSession]:
    """Return Spark with both formats, as jobs use it."""
    register(spark)
    return lambda: spark


@pytest.fixture
def client(broker: RunningBroker, name: str) -> Iterator[DataClient]:
    """A client, and two topics: `name`, and `name`-back."""
    with DataClient(HOST, broker.port) as client:
        client.create_topic(name, PARTITIONS)
        client.create_topic(f"{name}-back", PARTITIONS)
        yield client


def fill(broker: RunningBroker, topic: str, count: int, seed: int = 7) -> None:
    """Write records of two days with all kinds of keys, values and headers, into both partitions."""
    dice = random.Random(seed)
    texts = [None, b"", b"text", bytes(range(256))]
    headers = [None, [("null", None)], [("empty", b""), ("null", None), ("twice", b"1"), ("twice", b"2"), ("", b"")]]
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "linger.ms": 5, "queue.buffering.max.messages": max(1000, count)}
    )
    for number in range(count):
        producer.produce(
            topic,
            value=dice.choice(texts),
            key=dice.choice(texts),
            partition=number % PARTITIONS,
            timestamp=EPOCH_MS + dice.randrange(2) * DAY_MS + number,
            headers=dice.choice(headers),
        )
    assert producer.flush(60) == 0


def stored(broker: RunningBroker, topic: str) -> list[dict[str, Any]]:
    """Return the records in a topic's files."""
    return rows_of(broker.log_dir, topic)


@pytest.fixture
def lake(tmp_path: Path, session: Callable[[], SparkSession], broker: RunningBroker, name: str) -> Lake:
    return Lake(tmp_path / "lake", session, {"bootstrap.servers": broker.bootstrap}, name)


def test_all_fields_of_a_record_make_the_round_trip(
    broker: RunningBroker, client: DataClient, lake: Lake, name: str
) -> None:
    """In several runs, compacted in between, and restored in two steps; each offset is kept."""
    fill(broker, name, 40)
    ranges = lake.archive(step=25)
    assert len(ranges) == 4
    assert archived(lake.root) == stored(broker, name)
    assert lake.archive() == []
    assert lake.verify() == (True, [SAME] * 4)

    before, after = lake.compact()
    assert (before, after) == (8, 2)
    assert archived(lake.root) == stored(broker, name)
    assert [(each.partition, each.written, each.found) for each in lake.restore(f"{name}-back")] == [
        (0, 20, 0),
        (1, 20, 0),
    ]

    fill(broker, name, 20, seed=8)
    assert [(each.start, each.end) for each in lake.archive()] == [(20, 30), (20, 30)]
    results = lake.restore(f"{name}-back", exact_offsets=True)
    assert [(each.written, each.found, each.kept_below) for each in results] == [(10, 20, 30)] * 2
    assert stored(broker, f"{name}-back") == stored(broker, name)
    assert [each.written for each in lake.restore(f"{name}-back")] == [0, 0]


@pytest.mark.full_size
def test_delta_table_is_the_archive(
    broker: RunningBroker, client: DataClient, lake: Lake, name: str, spark: SparkSession
) -> None:
    """Delta Lake reads all fields of all records, after several runs and a compaction."""

    def rows() -> list[dict[str, Any]]:
        table = spark.read.format("delta").load(str(lake.root))
        found = table.drop("topic", "date").toArrow().to_pylist()
        return sorted(found, key=lambda row: (row["partition"], row["offset"]))

    fill(broker, name, 20)
    lake.archive()
    with Archive(lake.root, writing=True) as archive:
        archive.set_table("delta")
    fill(broker, name, 20, seed=8)
    lake.archive()
    assert rows() == stored(broker, name)
    lake.compact()
    assert rows() == archived(lake.root) == stored(broker, name)
    assert lake.verify() == (True, [SAME] * 2)


def test_directory_gives_the_same_archive(
    broker: RunningBroker, client: DataClient, lake: Lake, name: str, tmp_path: Path
) -> None:
    """First of the closed segments, of which there are none yet; then of all, while the broker runs."""
    fill(broker, name, 20)
    assert lake.archive(DirectoryInput(str(broker.log_dir), committed=True)) == []
    directory = DirectoryInput(str(broker.log_dir), committed=True, active=True, lag=3)
    assert [each[:4] for each in lake.archive(directory)] == [(name, 0, 0, 7), (name, 1, 0, 7)]
    assert archived(lake.root) == [row for row in stored(broker, name) if row["offset"] < 7]
    assert lake.verify() == (True, [SAME] * 2)


def test_records_lost_by_the_log_are_reported(broker: RunningBroker, client: DataClient, lake: Lake, name: str) -> None:
    """Records lost before the archive stop it, or are skipped; records lost afterwards are what archives are for.

    Also for a partition that was empty at the first run.
    """
    fill(broker, name, 20)
    client.delete_records(name, 1, 10)
    assert [each[1:5] for each in lake.archive()] == [(0, 0, 10, 10), (1, 10, 10, 0)]
    fill(broker, name, 10)
    for partition, offset in ((1, 11), (0, 12)):
        client.delete_records(name, partition, offset)
        with pytest.raises(LogChanged, match=f"{name}-{partition} begins at offset {offset}, and is archived up to 10"):
            lake.archive()

    assert [each[1:5] for each in lake.archive(skip=True)] == [(0, 12, 15, 3), (1, 11, 15, 4)]
    assert lake.verify() == (True, [GONE, SAME, SAME, SAME])
    with pytest.raises(UnusableTarget, match="offsets from 10 on cannot be kept"):
        lake.restore(f"{name}-back", exact_offsets=True)
    assert [(each.written, each.kept_below) for each in lake.restore(f"{name}-back")] == [(13, 10), (4, 0)]
    assert [row["offset"] for row in stored(broker, f"{name}-back") if row["partition"] == 0] == list(range(13))


def test_rows_of_another_topic_are_found(broker: RunningBroker, client: DataClient, lake: Lake, name: str) -> None:
    """Another topic of the same name, with as many records."""
    fill(broker, name, 10)
    lake.archive()
    client.delete_topic(name)
    client.create_topic(name, PARTITIONS)
    fill(broker, name, 10, seed=8)

    assert lake.verify() == (False, [DIFFERENT] * 2)
    client.delete_topic(name)
    assert lake.verify() == (True, [GONE] * 2)


def test_aborted_records_are_left_out_and_cost_offsets(
    broker: RunningBroker, client: DataClient, lake: Lake, name: str
) -> None:
    """Committed records are archived, up to the first open transaction."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    for end in (producer.abort_transaction, producer.commit_transaction, None):
        producer.begin_transaction()
        producer.produce(name, b"value", partition=0, timestamp=EPOCH_MS)
        producer.flush(30)
        if end is not None:
            end(30)

    [range_0, *_] = lake.archive()
    assert (range_0.start, range_0.end, range_0.records) == (0, 4, 1)
    producer.abort_transaction(30)


def test_a_topic_with_foreign_records_is_rejected(
    broker: RunningBroker, client: DataClient, lake: Lake, name: str
) -> None:
    """Foreign records before the restore, and after it; a topic that would replace timestamps; a missing topic."""
    fill(broker, name, 10)
    lake.archive()
    fill(broker, f"{name}-back", 2)
    with pytest.raises(UnusableTarget, match="--append continues after them"):
        lake.restore(f"{name}-back")
    assert [each.base for each in lake.restore(f"{name}-back", append=True)] == [1, 1]

    fill(broker, f"{name}-back", 2, seed=9)
    assert [each.written for each in lake.restore(f"{name}-back")] == [0, 0]
    fill(broker, name, 10)
    lake.archive()
    with pytest.raises((ArchiveError, SourceError), match="differs from the archive's"):
        lake.restore(f"{name}-back")

    client.create_topic(f"{name}-stamped", PARTITIONS, {"message.timestamp.type": "LogAppendTime"})
    with pytest.raises(UnusableTarget, match="LogAppendTime"):
        lake.restore(f"{name}-stamped")
    client.create_topic(f"{name}-narrow", 1)
    with pytest.raises(UnusableTarget, match="make it with 2 at least"):
        lake.restore(f"{name}-narrow")
    with pytest.raises(SourceError, match="there is no topic"):
        lake.restore(f"{name}-nowhere")


#: Both commands, one after the other.
COMMANDS = """
import sys
from pybroker.cli import archive, restore
lake, topic, bootstrap = sys.argv[1:]
spark = ["--bootstrap-server", bootstrap, "--master", "local[2]", "--memory", "512m"]
archived = archive.main([lake, "--topics", topic, "--step-offsets", "2000", "--format", "delta", *spark])
sys.exit(archived or restore.main([lake, topic, "--into", topic + "-back", *spark]))
"""


class Commands:
    """A process that archives and restores a topic, with its JVM, and its progress."""

    def __init__(self, lake: Lake, broker: RunningBroker, client: DataClient) -> None:
        self._lake = lake
        self._client = client
        self._arguments = [str(lake.root), lake.topic, broker.bootstrap]

    def kill_after(self, done: Callable[[], int], more: int, wait_s: float = 0) -> None:
        """Start the process, and kill it some time after `done` has grown by `more`."""
        before = done()
        process = self._start()
        eventually(lambda: process.poll() is not None or done() > before + more, timeout_s=240, interval_s=0.01)
        time.sleep(wait_s)
        assert process.poll() is None, "it ended before it was killed"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def finish(self) -> None:
        """Repeat the process until it completes."""
        assert self._start().wait(600) == 0

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", COMMANDS, *self._arguments], start_new_session=True)

    def archived(self) -> int:
        return archived_count(self._lake.root)

    def restored(self) -> int:
        return sum(self._client.bounds(f"{self._lake.topic}-back", partition)[1] for partition in range(PARTITIONS))


@pytest.mark.full_size
def test_killed_drivers_lose_and_repeat_no_record(
    broker: RunningBroker, client: DataClient, lake: Lake, name: str
) -> None:
    """Python and JVM are killed together, in the archive and in the restore, repeatedly; the last run completes."""
    fill(broker, name, COUNT)
    commands = Commands(lake, broker, client)
    for number in range(KILLS):
        commands.kill_after(commands.archived, DICE.randrange(COUNT // 2 // KILLS), DICE.uniform(0, 0.2))
        rows = archived(lake.root)
        assert len({(row["partition"], row["offset"]) for row in rows}) == len(rows), f"doubled by kill {number}"
    for _ in range(KILLS):
        commands.kill_after(commands.restored, DICE.randrange(COUNT // 2 // KILLS))
    commands.finish()

    assert archived(lake.root) == stored(broker, name)
    assert stored(broker, f"{name}-back") == stored(broker, name)
    assert lake.verify() == (True, [SAME] * len(lake.ranges()))
