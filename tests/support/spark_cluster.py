"""A Spark cluster on loopback: a master and its workers, each a process, with executors in other processes.

`python -m tests.support.spark_cluster MASTER DIRECTORY < SOURCES` is a driver. It writes the rows of each source, by
name, to NAME.arrow, and the folders in which executors read them to places.json.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyspark

from pybroker.pipeline.java import find_java
from pybroker.pipeline.session import connector_jars, java_home, start_session
from pybroker.spark import register
from tests.support.brokers import HOST
from tests.support.eventually import eventually

SPARK_HOME = Path(pyspark.__file__).parent
#: the properties of a driver on this machine
DRIVER = {"spark.driver.host": HOST, "spark.driver.bindAddress": HOST, "spark.executor.memory": "512m"}


def environ() -> dict[str, str]:
    """Return environment variables for Spark's scripts, without those of this project."""
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
        """Add a worker with one core and a folder of its own."""
        options = ("--cores", "1", "--memory", "1g", "--work-dir", str(self.folder(number)), self.url)
        self._start("Worker", *options, told=r"(Successfully registered) with master", name=f"worker-{number}")

    def folder(self, number: int) -> Path:
        """Return a worker's folder: its executors run below it."""
        return self.directory / f"worker{number}"

    def _start(self, kind: str, *options: str, told: str, name: str = "master") -> str:
        """Return the part of the process's output that shows it is up."""
        log = self.directory / f"{name}.log"
        command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind.lower()}.{kind}"]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, "--host", HOST, "--webui-port", "0", *options],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environ(),
            )  # fmt: skip
        self._processes.append(process)

        def printed() -> str:
            return log.read_text(errors="replace")

        eventually(lambda: re.search(told, printed()) or process.poll() is not None, printed, timeout_s=180)
        found = re.search(told, printed())
        assert found is not None, printed()
        return found[1]

    def end(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(60)


def main(master: str, directory: str) -> None:
    """Read all sources, then return."""
    folder = Path(directory)
    settings = {
        **DRIVER,
        "spark.jars": connector_jars(),
        "spark.sql.warehouse.dir": f"{directory}/warehouse",
        # no task before all executors are there
        "spark.cores.max": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "1",
    }
    session = start_session("sources", master, settings)
    register(session)
    places: dict[str, list[str]] = {}
    for name, (kind, options) in json.load(sys.stdin).items():
        rows = session.read.format(kind).options(**options).load()
        with pa.OSFile(str(folder / f"{name}.arrow"), "wb") as file:
            table = rows.toArrow()
            with pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
        if kind not in places:
            places[kind] = sorted(set(rows.rdd.mapPartitions(_place).collect()))
    (folder / "places.json").write_text(json.dumps(places))
    session.stop()


def _place(rows: Iterable[object]) -> Iterator[str]:
    """Where an executor runs that has rows to read."""
    if any(True for _ in rows):
        yield os.getcwd()


if __name__ == "__main__":
    main(*sys.argv[1:])
