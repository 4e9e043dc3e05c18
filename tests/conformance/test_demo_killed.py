"""The example under kills of Spark's driver, of the broker, and of both: after a rerun its counts match the file."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from pybroker.pipeline.cluster import Cluster
from pybroker.pipeline.spec import Kafka
from tests.support.access_logs import EXAMPLE, AccessLog, write_resampled
from tests.support.brokers import OurBroker
from tests.support.eventually import eventually
from tests.support.scale import scaled

pytestmark = pytest.mark.full_size  # kills of the pipeline are in test_pipeline_restart.py, too

LINES = min(scaled(30_000), 1_000_000)
#: of each kind
KILLS = min(scaled(1), 5)
#: a kill takes about two
BATCHES = 7 * KILLS
#: every so-many-th line cannot be parsed
BROKEN = 1000
#: the example's, in seconds: so long after its end a window is over
WATERMARK = 10
TOPIC = "nginx-access"
#: of several partitions, lines of one may come too late for windows that another has closed
PARTITIONS = 1


class Example:
    """The broker, and the example's pipeline: each a process that may be killed."""

    def __init__(self, directory: Path) -> None:
        self.lake = directory / "lake"
        self.broker = OurBroker(directory / "broker", {"num.partitions": str(PARTITIONS)})
        self.log = directory / "access.log"
        self._directory = directory
        self._spec = directory / "pipeline.yaml"
        batch = f"max_per_trigger: {LINES // BATCHES}"
        self._spec.write_text((EXAMPLE / "pipeline.yaml").read_text().replace("max_per_trigger: 250000", batch))
        assert batch in self._spec.read_text()
        self._driver: subprocess.Popen[bytes] | None = None

    def ship(self) -> None:
        """Ship the log into the topic with the example's own script; the broker is killed during that."""
        command = [sys.executable, "-m", "pybroker", "produce", "--topic", TOPIC, str(self.log), "--follow"]
        command += ["--bootstrap-server", self.broker.bootstrap, "--from-beginning"]
        shipping = subprocess.Popen([*command, "--position", str(self._directory / "position.json")])
        self._wait_for_lines(LINES // 3)
        self.broker.kill()
        self.broker.start()
        self._wait_for_lines(LINES)
        shipping.terminate()
        assert shipping.wait(60) == 0

    def _wait_for_lines(self, count: int) -> None:
        cluster = Cluster(Kafka(self.broker.bootstrap))
        places = [(TOPIC, partition) for partition in range(PARTITIONS)]
        eventually(lambda: len(cluster.partitions().get(TOPIC, ())), equal_to=PARTITIONS, interval_s=0.01)
        eventually(lambda: sum(self._ends(cluster, places)) >= count, timeout_s=240, interval_s=0.01)
        assert count < LINES or sum(self._ends(cluster, places)) == LINES

    @staticmethod
    def _ends(cluster: Cluster, places: list[tuple[str, int]]) -> list[int]:
        return list(cluster.ends(places, committed=True).values())

    def kill(self, kind: str, dice: random.Random) -> None:
        """Kill driver, broker or both, some time after the next batch began."""
        until = self._planned() + 1
        self._run()
        while self._planned() < until or not (self.lake / "checkpoints" / "pages" / "commits" / "0").exists():
            assert self._ended() != 0, "all was done before the last kill"
            self._run()
            time.sleep(0.01)
        time.sleep(dice.uniform(0, 0.5))
        if kind != "broker":
            self.kill_driver()
        if kind != "driver":
            self.broker.kill()
            self.broker.start()

    def finish(self) -> None:
        """Run the pipeline to its end; restart it if it lost the broker for too long."""
        self._run()
        assert self._driver is not None
        if self._driver.wait(600) != 0:
            self._run()
            assert self._driver.wait(600) == 0, self.output

    @property
    def output(self) -> str:
        return (self._directory / "output.txt").read_text()

    def kill_driver(self) -> None:
        """Kill Python and its JVM."""
        if self._driver is not None:
            if self._driver.poll() is None:
                os.killpg(self._driver.pid, signal.SIGKILL)
            self._driver.wait()
            self._driver = None

    def _ended(self) -> int | None:
        return None if self._driver is None else self._driver.poll()

    def _run(self) -> None:
        """Start the driver, unless it runs."""
        if self._driver is not None and self._driver.poll() is None:
            return
        environ = {**os.environ, "BOOTSTRAP": self.broker.bootstrap, "LAKE": str(self.lake)}
        command = [sys.executable, "-m", "pybroker", "pipeline", "run", str(self._spec)]
        with (self._directory / "output.txt").open("ab") as output:
            self._driver = subprocess.Popen(command, env=environ, stdout=output, stderr=output, start_new_session=True)

    def _planned(self) -> int:
        """Return the newest batch that the archive has begun."""
        folder = self.lake / "checkpoints" / "requests" / "offsets"
        return max((int(each.name) for each in folder.glob("[0-9]*")), default=-1)


@pytest.fixture
def example(tmp_path: Path) -> Iterator[Example]:
    """Return an empty example."""
    one = Example(tmp_path)
    yield one
    one.kill_driver()
    one.broker.kill()


def test_counts_are_those_of_the_file(example: Example, spark: SparkSession) -> None:
    """Rows exactly once; letters and windows at least once in their topic, all with the same content.

    The file has lines of the recorded log in a new order, across midnight.
    """
    dice = random.Random(11)
    write_resampled(example.log, LINES, f"--seed={LINES}", f"--broken={BROKEN}")
    example.ship()
    kinds = ["driver", "broker", "both"] * KILLS
    for kind in kinds:
        example.kill(kind, dice)
    example.finish()

    log = AccessLog.read(example.log)
    assert (len(log.requests) + len(log.broken), len(log.broken)) == (LINES, LINES // BROKEN)

    requests = spark.read.parquet(str(example.lake / "requests"))
    columns = ("remote_addr", "method", "path", "status", "bytes", "user_agent")
    found = [tuple(row) for row in requests.select(f.unix_seconds("time"), *columns).toLocalIterator()]
    different = set(found) ^ set(map(tuple, log.requests))
    assert (len(found), sorted(different)[:10]) == (len(log.requests), [])
    dates = {f"{row.date}": row["count"] for row in requests.groupBy("date").count().collect()}
    assert dates == {date: counts.requests for date, counts in log.by(lambda request: request.date).items()}
    assert len(dates) > 1

    letters = records(spark, example, f"{TOPIC}-unparsed").selectExpr(
        "CAST(value AS STRING) AS value", "CAST(element_at(headers, -1).value AS STRING) AS offset",
        "CAST(element_at(headers, -2).value AS STRING) AS partition",
    )  # fmt: skip
    assert sorted(row.value for row in letters.distinct().collect()) == sorted(log.broken)

    over = max(request.time for request in log.requests) - WATERMARK
    by_minute = log.by(lambda request: (request.minute, request.status, request.path))
    assert windows(spark, example) == {
        (minute, *group): (counts.requests, counts.size)
        for (minute, *group), counts in by_minute.items()
        if minute + 60 <= over
    }

    table = spark.read.format("jdbc").options(url=f"jdbc:derby:{example.lake}/tables", dbtable="pages").load()
    pages = {row.page: (row.requests, row.bytes, row.errors) for row in table.collect()}
    assert pages == log.by(lambda request: request.path)


def records(spark: SparkSession, example: Example, topic: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": example.broker.bootstrap, "subscribe": topic, "includeHeaders": "true"}
    return spark.read.format("kafka").options(**options).load()


def windows(spark: SparkSession, example: Example) -> dict[Any, Any]:
    """Return requests and bytes by start, status and path, of the topic's records without duplicates."""
    schema = "window_start TIMESTAMP, status INT, path STRING, requests BIGINT, bytes BIGINT"
    row = f.from_json(f.col("value").cast("string"), schema).alias("row")
    rows = records(spark, example, f"{TOPIC}-per-minute").select(row).select(
        f.unix_seconds("row.window_start").alias("begin"), "row.*"
    ).distinct().collect()  # fmt: skip
    counted = {(row.begin, row.status, row.path): (row.requests, row.bytes) for row in rows}
    assert len(counted) == len(rows)
    return counted
