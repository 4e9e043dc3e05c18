"""A stream whose driver is killed while its topic gets partitions: each record once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import SparkSession

from pybroker.spark import register
from tests.support.brokers import HOST, RunningBroker
from tests.support.data_client import DataClient
from tests.support.eventually import eventually
from tests.support.scale import scaled
from tests.support.spark_sources import Job, opened, sorted_rows

ROOT = Path(__file__).resolve().parents[2]
KILLS = min(6, scaled(1))
MOST_OFFSETS = 50
COUNT = 1500


@contextmanager
def driver(broker: RunningBroker, topic: str, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process, and kill it with its children at the end."""
    words = [broker.bootstrap, topic, str(directory), str(MOST_OFFSETS)]
    with (directory / "driver.txt").open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.spark_sources", *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=ROOT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_killed_driver_and_a_growing_topic(
    spark: SparkSession, shared_broker: Callable[[str], RunningBroker], name: str, tmp_path: Path
) -> None:
    """Killed during a batch; another driver continues from the checkpoint, and reads new partitions from their
    beginning.
    """
    broker, dice = shared_broker("ours"), random.Random(9)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    register(spark)
    job = Job(spark, broker.bootstrap, name, tmp_path)
    with DataClient(HOST, broker.port) as client:
        client.create_topic(name, 2)
    for number in range(KILLS):
        fill(broker, name, range(2 * number, 2 * number + 2))
        planned = job.planned()
        with driver(broker, name, tmp_path) as running:
            wait_for_plans(job, planned + 2, running, tmp_path)
            more = 2 * number + 4
            admin.create_partitions([NewPartitions(name, more)])[name].result(60)
            fill(broker, name, [more - 1], COUNT // 10)
            wait_for_plans(job, planned + 4, running, tmp_path)
            time.sleep(dice.uniform(0, 0.3))

    rest = job.run()

    expected = sorted_rows(opened(spark.read, "kafka", broker.bootstrap, subscribe=name))
    assert len(expected) == KILLS * (2 * COUNT + COUNT // 10)
    assert COUNT // 2 < sum(rest) < len(expected)
    assert job.rows() == expected


def fill(broker: RunningBroker, topic: str, partitions: range | list[int], count: int = COUNT) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for partition in partitions:
        for number in range(count):
            producer.produce(topic, b"%d" % number, partition=partition)
    assert producer.flush(60) == 0


def wait_for_plans(job: Job, count: int, running: subprocess.Popen[bytes], directory: Path) -> None:
    """Wait until the stream has planned so many batches."""

    def output() -> str:
        return (directory / "driver.txt").read_text(errors="replace")[-3000:]

    eventually(lambda: job.planned() >= count or running.poll() is not None, output, timeout_s=240)
    assert job.planned() >= count, output()
