"""Run the whole pipeline: nginx writes an access log, its lines go into a topic, Spark turns them into a lake.

    python demo.py [--log FILE] [--keep FOLDER]

Without --log a real nginx on loopback writes a log if nginx is installed; otherwise the log recorded beside this file
is used. The broker runs on a free port with its own folder during the demo. The result is a report with charts:
report.html in the folder of --keep, otherwise in the current folder.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from access_log import find_nginx, record
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from report import page

from pybroker.pipeline.cluster import Cluster
from pybroker.pipeline.session import open_session
from pybroker.pipeline.spec import Kafka, load

HERE = Path(__file__).resolve().parent
TOPIC = "nginx-access"

# Lines that a full disk, or a program that writes into the wrong file, leaves in logs
BROKEN = ["127.0.0.1 - - [21/Nov/2026:14:40", "Traceback (most recent call last):", ""]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_broker(folder: Path, port: int) -> subprocess.Popen[bytes]:
    """Start pybroker with a small configuration and return when it listens."""
    config = folder / "server.properties"
    config.write_text(f"listeners=PLAINTEXT://127.0.0.1:{port}\nlog.dirs={folder / 'broker'}\nnum.partitions=2\n")
    process = subprocess.Popen([sys.executable, "-m", "pybroker", str(config)])
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if process.poll() is not None:
                break
            time.sleep(0.05)
        else:
            return process
    process.kill()
    raise SystemExit("the broker did not start")


@contextmanager
def shipped(bootstrap: str, folder: Path, log: Path) -> Iterator[None]:
    """Run `pybroker produce --follow`, which sends the log's lines into the topic, while the context lasts."""
    command = [sys.executable, "-m", "pybroker", "produce", "--topic", TOPIC, "--bootstrap-server", bootstrap]
    command += ["--follow", "--from-beginning", "--position", str(folder / "position.json"), str(log)]
    process = subprocess.Popen([*command, "--property", "compression.type=gzip"])
    try:
        yield
    finally:
        process.terminate()
        if process.wait(60) != 0:
            raise SystemExit("pybroker produce failed")


def wait_for(bootstrap: str, lines: int) -> None:
    """Return when this many records are in the topic."""
    cluster = Cluster(Kafka(bootstrap))
    for _ in range(600):
        partitions = [(TOPIC, partition) for partition in cluster.partitions().get(TOPIC, [])]
        if sum(cluster.ends(partitions, committed=True).values()) >= lines:
            return
        time.sleep(0.2)
    raise SystemExit(f"{lines} lines are not in {TOPIC} after two minutes")


def counts_per_minute(spark: SparkSession, bootstrap: str) -> DataFrame:
    """Return the rows of the topic with the pipeline's counts."""
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": f"{TOPIC}-per-minute"}
    records = spark.read.format("kafka").options(**options).load()
    schema = "window_start TIMESTAMP, status INT, path STRING, requests BIGINT, bytes BIGINT"
    return records.select(f.from_json(f.col("value").cast("string"), schema).alias("row")).select("row.*")


def show(environ: dict[str, str], lines: int, report: Path) -> bool:
    """Print the results and write the report; return whether every line has been processed exactly once."""
    spark = open_session(load(HERE / "pipeline.yaml", environ))
    lake, bootstrap = environ["LAKE"], environ["BOOTSTRAP"]
    print("\nRequests by minute, status and path, of the minutes that are over:")
    counts_per_minute(spark, bootstrap).orderBy("window_start", f.desc("requests")).show(15, truncate=60)
    rows = spark.read.parquet(f"{lake}/requests").count()
    unparsed = spark.read.format("kafka").options(
        **{"kafka.bootstrap.servers": bootstrap, "subscribe": f"{TOPIC}-unparsed"}
    )
    letters = unparsed.load().count()
    report.write_text(page(spark, lake), encoding="utf-8")
    spark.stop()
    right = rows + letters == lines and letters == len(BROKEN)
    print(f"{lines} lines in the log, {rows} rows in {lake}/requests and {letters} dead letters: "
          + ("all there" if right else "WRONG"))  # fmt: skip
    print(f"The report: {report}")
    return right


def run(folder: Path, log: Path | None, report: Path) -> bool:
    """Run the demo; without a log nginx writes one while its lines are sent."""
    port = free_port()
    environ = {"BOOTSTRAP": f"127.0.0.1:{port}", "LAKE": str(folder / "lake")}
    broker = start_broker(folder, port)
    followed = folder / "nginx-access.log"
    try:
        with shipped(environ["BOOTSTRAP"], folder, followed):
            write(followed, log)
            lines = len(followed.read_bytes().splitlines())
            wait_for(environ["BOOTSTRAP"], lines)
        print(f"{lines} lines of {followed} are in the topic {TOPIC}; Spark takes over", flush=True)
        command = [sys.executable, "-m", "pybroker", "pipeline", "run", str(HERE / "pipeline.yaml")]
        subprocess.run(command, env={**os.environ, **environ}, check=True)
        return show(environ, lines, report)
    finally:
        broker.terminate()
        broker.wait(30)


def write(followed: Path, log: Path | None) -> None:
    """Let nginx write the log, or copy an existing one, and append a few invalid lines."""
    nginx = find_nginx()
    if log is None and nginx is not None:
        print(f"{nginx} writes an access log", flush=True)
        record(nginx, followed, requests=3000, seed=int(time.time()), seconds=75)
    else:
        followed.write_bytes((log or HERE / "access.log").read_bytes())
    with followed.open("a") as file:
        file.writelines(f"{line}\n" for line in BROKEN)


def main() -> int:
    parser = argparse.ArgumentParser(description="An access log through the broker and Spark into Parquet.")
    parser.add_argument("--log", type=Path, help="an access log in nginx's format combined")
    parser.add_argument("--keep", type=Path, help="put everything into this folder and leave it there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pybroker-demo-") as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        report = (options.keep or Path()) / "report.html"
        return 0 if run(folder.resolve(), options.log, report.resolve()) else 1


if __name__ == "__main__":
    sys.exit(main())
