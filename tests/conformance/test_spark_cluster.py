"""A Spark cluster with a master and its workers: a packaged pipeline by spark-submit, and sources without a jar."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from confluent_kafka import Producer

from pybroker.testing import Broker
from tests.support.brokers import HOST, RunningBroker
from tests.support.compacted import CLEANED, SEGMENTS, UNTOUCHED, begin, fill_compacted
from tests.support.data_client import DataClient
from tests.support.scale import SCALE, scaled
from tests.support.spark_cluster import DRIVER, Cluster, environ
from tests.support.spark_sources import fill_topic
from tests.support.specifications import document, written

ROOT = Path(__file__).resolve().parents[2]
#: Each has folders of its own, so a single one gets the package only if it is shipped.
WORKERS = 1 if SCALE <= 1 else 2
COUNT = 40
PARTITIONS = 3
RECORDS = min(scaled(60), 2000)
READINGS = min(scaled(1), 20)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    running = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        for number in range(WORKERS):
            running.add_worker(number)
        yield running
    finally:
        running.end()


def test_package_runs_on_a_cluster(
    cluster: Cluster, shared_broker: Callable[[str], RunningBroker], tmp_path: Path
) -> None:
    """On each worker; a second run continues where the first ended."""
    broker = shared_broker("ours")
    with DataClient(HOST, broker.port) as client:
        client.create_topic("packaged", 2)
    sink = {"format": "parquet", "path": str(tmp_path / "rows")}
    spec = written(
        tmp_path,
        document(
            kafka={"bootstrap": "${BOOTSTRAP}"},
            checkpoint_root=str(tmp_path / "state"),
            sources={"s": {"topics": ["packaged"]}},
            streams={"copied": {"from": "s", "sql": "SELECT _partition, _offset FROM s", "sink": sink}},
        ),
    )
    command = [sys.executable, "-m", "pybroker", "pipeline", "package", str(spec), "-o", str(tmp_path / "out")]
    packaged = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "BOOTSTRAP": broker.bootstrap}, timeout=300
    )
    assert packaged.returncode == 0, packaged.stderr
    assert f"streams.copied.sink.path: {tmp_path}/rows has to be the same folder on all machines" in packaged.stderr

    before = applications(cluster)
    for run in range(2):
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(COUNT):
            producer.produce("packaged", f"{number}", partition=number % 2)
        assert producer.flush(60) == 0
        conf = [word for each in DRIVER.items() for word in ("--conf", "=".join(each))]
        done = subprocess.run(
            [tmp_path / "out" / "submit.sh", "--master", cluster.url, *conf],
            capture_output=True, text=True, timeout=600, cwd="/",
            env={**environ(), "BOOTSTRAP": broker.bootstrap, "PIPELINE_OPTIONS": "--once"},
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"copied: batch {run}: {COUNT} records" in done.stdout

    rows = pyarrow.parquet.read_table(tmp_path / "rows").to_pylist()
    expected = [(index, offset) for index in range(2) for offset in range(COUNT)]
    assert sorted((row["_partition"], row["_offset"]) for row in rows) == expected
    assert applications(cluster) == [number + 2 for number in before]


def applications(cluster: Cluster) -> list[int]:
    """Return how many applications each worker has run."""
    return [len(list(cluster.folder(number).glob("app-*"))) for number in range(WORKERS)]


@pytest.mark.full_size
def test_executors_read_the_same_by_all_sources(cluster: Cluster, tmp_path: Path) -> None:
    """Row by row: all codecs, headers, nulls, transactions, a compacted topic; a directory also while it grows."""
    with Broker(UNTOUCHED) as broker:
        broker.create_topic("whole", PARTITIONS, SEGMENTS)
        fill_topic(broker.bootstrap_servers, "whole", PARTITIONS, RECORDS)
        broker.create_topic("compacted", PARTITIONS, {**SEGMENTS, **CLEANED})
        fill_compacted(broker, "compacted", PARTITIONS, RECORDS // 5, random.Random(5))
        under_way = [begin(broker, topic, PARTITIONS) for topic in ("whole", "compacted")]
        broker.create_topic("growing", PARTITIONS, {"internal.segment.bytes": 30_000})
        levels = ("read_uncommitted", "read_committed")
        places = [(topic, level) for topic in ("whole", "compacted") for level in levels]
        draws = {
            f"{topic}-{level}-{kind}": (kind, options_of(broker, kind, topic, level))
            for topic, level in places
            for kind in ("kafka", "pybroker", "pybroker-log")
        }
        for number in range(READINGS):
            draws[f"growing-{number}"] = "pybroker-log", options_of(broker, "pybroker-log", "growing", levels[0])
        draws["growing"] = "kafka", options_of(broker, "kafka", "growing", levels[0])

        with written_to(broker, "growing"):
            read_on(cluster, draws, tmp_path)
        for producer in under_way:
            producer.abort_transaction(30)

    for topic, level in places:
        expected, *others = (
            rows_of(tmp_path, f"{topic}-{level}-{kind}") for kind in ("kafka", "pybroker", "pybroker-log")
        )
        assert len(expected) > 3 * PARTITIONS
        for other in others:
            assert other == expected, (topic, level)
    everything, before = rows_of(tmp_path, "growing"), 0
    for number in range(READINGS):
        rows = rows_of(tmp_path, f"growing-{number}")
        ends = {partition: sum(row["partition"] == partition for row in rows) for partition in range(PARTITIONS)}
        assert rows == [row for row in everything if row["offset"] < ends[row["partition"]]]
        assert before < len(rows) < len(everything)
        before = len(rows)
    folders = {str(cluster.folder(number)) for number in range(WORKERS)}
    for kind, executors in json.loads((tmp_path / "places.json").read_text()).items():
        assert {str(Path(each).parents[1]) for each in executors} == folders, kind


def options_of(broker: Broker, kind: str, topic: str, level: str) -> dict[str, str]:
    """Return the options for a whole topic, with headers, in enough tasks for all executors."""
    options = {"subscribe": topic, "kafka.isolation.level": level, "includeHeaders": "true"}
    if kind == "pybroker-log":
        return {**options, "path": str(broker.data_directory)}
    return {**options, "kafka.bootstrap.servers": broker.bootstrap_servers, "minPartitions": "6"}


@contextmanager
def written_to(broker: Broker, topic: str) -> Iterator[None]:
    """Write to a topic all the time, a few records in each batch."""
    done = Event()

    def write() -> None:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "batch.num.messages": 5})
        numbers = count()
        while not done.wait(0.05):
            for number in islice(numbers, 10):
                producer.produce(topic, b"%d" % number, partition=number % PARTITIONS, headers=[("n", b"%d" % number)])
            producer.flush(60)

    thread = Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def read_on(cluster: Cluster, draws: dict[str, tuple[str, dict[str, str]]], directory: Path) -> None:
    """Read with a driver of its own, on the cluster."""
    command = [sys.executable, "-m", "tests.support.spark_cluster", cluster.url, str(directory)]
    told = json.dumps(draws)
    done = subprocess.run(command, input=told, capture_output=True, text=True, timeout=600, cwd=ROOT, env=environ())
    assert done.returncode == 0, done.stdout + done.stderr


def rows_of(directory: Path, name: str) -> list[dict[str, Any]]:
    """Return the rows of a draw, by partition and offset."""
    with pa.OSFile(str(directory / f"{name}.arrow")) as file:
        rows: list[dict[str, Any]] = pa.ipc.open_file(file).read_all().to_pylist()
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))
