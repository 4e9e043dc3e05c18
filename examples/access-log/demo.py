"""The whole way: nginx writes an access log, its lines go into a topic, Spark parses and counts them into Parquet.

    python demo.py [--log FILE] [--keep FOLDER]

Without --log: a real nginx on loopback writes one now, where nginx is installed; else the one recorded beside this file
is used. The broker runs on a free port with a folder of its own for the time of the demo.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from access_log import find_nginx, record
from kafka import KafkaProducer
from pyspark.sql import functions as f

from pybroker.pipeline.session import open_session
from pybroker.pipeline.spec import load

HERE = Path(__file__).resolve().parent
TOPIC = "nginx-access"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_broker(folder: Path, port: int) -> subprocess.Popen[bytes]:
    """Start pybroker with a small configuration; return once it listens."""
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


def write(bootstrap: str, log: Path) -> int:
    """Write each line of the log into the topic; return how many there are."""
    lines = log.read_bytes().splitlines()
    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=20, compression_type="gzip")
    sent = [producer.send(TOPIC, line) for line in lines]
    for future in sent:
        future.get(timeout=30)
    producer.close()
    return len(lines)


def show(environ: dict[str, str], lines: int) -> bool:
    """Print what is in the Parquet files; return whether every line is there once."""
    spark = open_session(load(HERE / "pipeline.yaml", environ))
    lake = environ["LAKE"]
    requests = spark.read.parquet(f"{lake}/requests")
    print("\nRequests by minute, status and path, of the minutes that are over:")
    per_minute = spark.read.parquet(f"{lake}/per_minute")
    per_minute.drop("window_end").orderBy("window_start", f.desc("requests")).show(15, truncate=60)
    count = requests.count()
    print(f"{lines} lines in the log, {count} rows in {lake}/requests: {'all there' if count == lines else 'WRONG'}")
    spark.stop()
    return count == lines


def run(folder: Path, log: Path) -> bool:
    port = free_port()
    environ = {"BOOTSTRAP": f"127.0.0.1:{port}", "LAKE": str(folder / "lake")}
    broker = start_broker(folder, port)
    try:
        lines = write(environ["BOOTSTRAP"], log)
        print(f"{lines} lines of {log} are in the topic {TOPIC}; Spark takes over", flush=True)
        command = [sys.executable, "-m", "pybroker", "pipeline", "run", str(HERE / "pipeline.yaml")]
        subprocess.run(command, env={**os.environ, **environ}, check=True)
        return show(environ, lines)
    finally:
        broker.terminate()
        broker.wait(30)


def main() -> int:
    parser = argparse.ArgumentParser(description="An access log through the broker and Spark into Parquet.")
    parser.add_argument("--log", type=Path, help="an access log in nginx's format combined")
    parser.add_argument("--keep", type=Path, help="put everything into this folder and leave it there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pybroker-demo-") as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        log = options.log
        nginx = find_nginx()
        if log is None and nginx is not None:
            print(f"{nginx} writes an access log", flush=True)
            log = folder / "access.log"
            record(nginx, log, requests=3000, seed=int(time.time()), seconds=75)
        return 0 if run(folder, log or HERE / "access.log") else 1


if __name__ == "__main__":
    sys.exit(main())
