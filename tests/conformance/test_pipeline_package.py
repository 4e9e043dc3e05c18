"""A packaged pipeline on a cluster of Spark's own: a master and two workers, each a process, and spark-submit."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet
import pyspark
import pytest
from confluent_kafka import Producer

from pybroker.pipeline.java import find_java
from pybroker.pipeline.session import java_home
from tests.support.brokers import HOST, RunningBroker
from tests.support.data_client import DataClient
from tests.support.specifications import document, written

SPARK_HOME = Path(pyspark.__file__).parent
WORKERS = 2
COUNT = 40


def environ() -> dict[str, str]:
    """What Spark's scripts go by; nothing of this project."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "SPARK", "PYSPARK"))}
    home = str(java_home(find_java()))
    local = {"SPARK_LOCAL_IP": HOST, "SPARK_HOME": str(SPARK_HOME), "PYSPARK_PYTHON": sys.executable}
    return {**kept, **local, "JAVA_HOME": home, "SPARK_DAEMON_MEMORY": "256m"}


class Cluster:
    """A standalone master and its workers; `url` is the master's."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []
        self.url = self._start("Master", "--port", "0", told=r"Starting Spark master at (spark://\S+)")

    def add_worker(self, number: int) -> None:
        """With a core, and a folder of its own."""
        work = str(self.directory / f"worker{number}")
        options = ("--cores", "1", "--memory", "1g", "--work-dir", work, self.url)
        self._start("Worker", *options, told=r"(Successfully registered) with master", name=f"worker-{number}")

    def _start(self, kind: str, *options: str, told: str, name: str = "master") -> str:
        """What the process has told that it is up by."""
        log = self.directory / f"{name}.log"
        command = [SPARK_HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{kind.lower()}.{kind}"]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, "--host", HOST, "--webui-port", "0", *options],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environ(),
            )  # fmt: skip
        self._processes.append(process)
        deadline = time.monotonic() + 180
        while (found := re.search(told, log.read_text(errors="replace"))) is None:
            assert process.poll() is None, log.read_text(errors="replace")
            assert time.monotonic() < deadline, log.read_text(errors="replace")
            time.sleep(0.05)
        return found[1]

    def end(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(60)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    running = Cluster(tmp_path)
    try:
        for number in range(WORKERS):
            running.add_worker(number)
        yield running
    finally:
        running.end()


def test_package_runs_on_a_cluster(
    cluster: Cluster, shared_broker: Callable[[str], RunningBroker], tmp_path: Path
) -> None:
    """On both workers; a second run goes on where the first has ended."""
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

    for run in range(2):
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(COUNT):
            producer.produce("packaged", f"{number}", partition=number % 2)
        assert producer.flush(60) == 0
        conf = [f"spark.driver.host={HOST}", f"spark.driver.bindAddress={HOST}", "spark.executor.memory=512m"]
        options = ["--master", cluster.url, *(word for each in conf for word in ("--conf", each))]
        done = subprocess.run(
            [tmp_path / "out" / "submit.sh", *options],
            capture_output=True, text=True, timeout=600, cwd="/",
            env={**environ(), "BOOTSTRAP": broker.bootstrap, "PIPELINE_OPTIONS": "--once"},
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"copied: batch {run}: {COUNT} records" in done.stdout

    rows = pyarrow.parquet.read_table(tmp_path / "rows").to_pylist()
    expected = [(index, offset) for index in range(2) for offset in range(COUNT)]
    assert sorted((row["_partition"], row["_offset"]) for row in rows) == expected
    for number in range(WORKERS):
        assert len(list((tmp_path / f"worker{number}").glob("app-*"))) == 2
