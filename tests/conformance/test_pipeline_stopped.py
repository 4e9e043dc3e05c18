"""A pipeline stopped during a batch: the command ends well, and the next run finds each row in the files once."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from pybroker.pipeline.checkpoint import progress
from pybroker.pipeline.preflight import claim_checkpoints
from pybroker.pipeline.spec import load
from tests.support.brokers import HOST, RunningBroker
from tests.support.data_client import DataClient
from tests.support.eventually import eventually
from tests.support.pipelines import run
from tests.support.scale import scaled
from tests.support.specifications import document, written

STOPS = min(scaled(1), 6)
SIGNALS = [signal.SIGTERM, signal.SIGINT]
PATIENCE_S = 240
COUNT = 100
#: the delay of a slow row: a batch of them would take minutes
SLOW_MS = 5000


class Stopped:
    """A pipeline of two partitions into files; rows contain their delay."""

    def __init__(self, broker: RunningBroker, topic: str, directory: Path) -> None:
        self._producer = Producer({"bootstrap.servers": broker.bootstrap})
        self._topic, self._directory, self._sent = topic, directory, 0
        self.lake, self._checkpoint = directory / "lake", directory / "state" / "q"
        with DataClient(HOST, broker.port) as client:
            client.create_topic(topic, 2)
        sleep = "java_method('java.lang.Thread', 'sleep', ms)"
        stream = {
            "from": "s",
            "sql": f"SELECT id, _partition AS partition, IF(ms > 0, {sleep}, NULL) AS slept FROM s",
            "trigger": "200ms",
            "sink": {"format": "parquet", "path": str(self.lake), "partition_by": ["partition"]},
        }
        source = {"topics": [topic], "parse": {"format": "json", "schema": "id INT, ms BIGINT"}}
        where = {"kafka": {"bootstrap": broker.bootstrap}, "checkpoint_root": str(directory / "state")}
        self._spec = written(directory, document(**where, sources={"s": source}, streams={"q": stream}))

    @property
    def output(self) -> str:
        return (self._directory / "output.txt").read_text()

    @property
    def sent(self) -> list[int]:
        return list(range(self._sent))

    def send(self, ms: tuple[int, int] = (0, 0)) -> None:
        """Send rows into both partitions, with these delays."""
        for number in range(self._sent, self._sent + COUNT):
            value = json.dumps({"id": number, "ms": ms[number % 2]})
            self._producer.produce(self._topic, value, partition=number % 2)
        assert self._producer.flush(60) == 0
        self._sent += COUNT

    @contextmanager
    def command(self) -> Iterator[subprocess.Popen[bytes]]:
        """Run the command; kill it at the end, with all its children."""
        words = [sys.executable, "-m", "pybroker", "pipeline", "run", str(self._spec)]
        with (self._directory / "output.txt").open("ab") as output:
            process = subprocess.Popen(words, stdout=output, stderr=output, start_new_session=True)
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def wait(self, process: subprocess.Popen[bytes], condition: Callable[[], object]) -> None:
        eventually(lambda: condition() or process.poll() is not None, lambda: self.output, timeout_s=PATIENCE_S)
        assert process.poll() is None, self.output

    def batch_runs(self) -> bool:
        """Return whether a batch was begun and is not done."""
        return progress(self._checkpoint).running is not None

    def half_written(self) -> bool:
        """Return whether a batch runs whose rows of the quick partition are in a file."""
        listed = {Path(json.loads(line)["path"]).name for line in self._committed() if line.startswith("{")}
        return self.batch_runs() and any(file.name not in listed for file in self.lake.glob("partition=0/*.parquet"))

    def _committed(self) -> Iterator[str]:
        for file in (self.lake / "_spark_metadata").glob("[0-9]*"):
            yield from file.read_text().splitlines()

    def go_on(self, spark: SparkSession) -> None:
        """Run to the end, in the test's own Spark, with SQL that ignores the delays."""
        pipeline = load(self._spec, {})
        stream = replace(pipeline.streams["q"], sql="SELECT id, _partition AS partition, '' AS slept FROM s")
        claim_checkpoints(pipeline)
        run(spark, replace(pipeline, streams={"q": stream}))


@pytest.fixture
def stopped(shared_broker: Callable[[str], RunningBroker], name: str, tmp_path: Path) -> Stopped:
    return Stopped(shared_broker("ours"), name, tmp_path)


def test_a_stop_during_a_batch(stopped: Stopped, spark: SparkSession) -> None:
    """Part of the batch is written then. No trace is printed, the exit code is 0; the next run repeats the batch."""
    dice = random.Random(5)
    stopped.send()
    stopped.go_on(spark)
    for number in range(STOPS):
        stopped.send((0, SLOW_MS))
        with stopped.command() as process:
            stopped.wait(process, stopped.half_written)
            time.sleep(dice.uniform(0, 1) if number else 0)
            process.send_signal(SIGNALS[number % 2])
            assert process.wait(PATIENCE_S / 2) == 0, stopped.output  # long before the end of the batch
        assert stopped.batch_runs()
        assert not re.search(r"Traceback|^\s+at |Exception", stopped.output, re.MULTILINE), stopped.output
        stopped.go_on(spark)

        rows = spark.read.parquet(str(stopped.lake)).collect()
        assert sorted(row.id for row in rows) == stopped.sent
