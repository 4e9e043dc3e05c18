"""Measure the process: start, memory when idle, and both with 1,000 partitions: `python -m bench.process`.

A start lasts from spawning the process until it answers ApiVersions; the best of several is shown, with its processor
time, which other work on the machine does not disturb. The Metadata of all topics is requested over one connection;
the best and the median of many are shown.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from client.connection import Connection
from client.errors import ConnectFailed
from protocol.messages.api_versions import API_VERSIONS
from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopic
from protocol.messages.metadata import METADATA
from protocol.schema import Api, Struct

STARTS = 5
PARTITIONS = 1000


class Broker:
    """A running broker, started by the users' command, with one connection to it."""

    def __init__(self, folder: Path, **properties: object) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        config = folder / "server.properties"
        lines = [f"listeners=PLAINTEXT://127.0.0.1:{self.port}", f"log.dirs={folder / 'data'}"]
        lines += [f"{name.replace('_', '.')}={value}" for name, value in properties.items()]
        config.write_text("".join(f"{line}\n" for line in lines))
        began = time.perf_counter()
        self.process = subprocess.Popen([sys.executable, "-m", "pybroker", str(config)], stderr=subprocess.DEVNULL)
        self.pid = self.process.pid
        self._connection = self._wait_for_port()
        self.call(API_VERSIONS, 0, API_VERSIONS.request())
        self.start_ms = 1000 * (time.perf_counter() - began)
        self.start_cpu_ms = self.cpu_ms()

    def connect(self) -> Connection:
        """Return another connection. Raises ClientError."""
        return Connection("127.0.0.1", self.port, timeout_s=300, client_id="bench")

    def _wait_for_port(self) -> Connection:
        while True:
            try:
                return self.connect()
            except ConnectFailed:
                if self.process.poll() is not None:
                    raise SystemExit("the broker did not start in time") from None
                time.sleep(0.002)

    def call(self, api: Api, version: int, request: Struct) -> Struct:
        """Send a request; return its response."""
        return self._connection.call(api, version, request)

    def cpu_ms(self) -> float:
        """Return the processor time that the broker has used."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return 1000 * (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mb(self) -> float:
        """Return the broker's resident memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def stop(self) -> None:
        self._connection.close()
        self.process.terminate()
        self.process.wait()


@contextmanager
def running(folder: Path, **properties: object) -> Iterator[Broker]:
    broker = Broker(folder, **properties)
    try:
        yield broker
    finally:
        broker.stop()


def starts(folder: Path) -> str:
    """Return the best of several starts on one data directory."""
    took, used = [], []
    for _ in range(STARTS):
        with running(folder) as broker:
            took.append(broker.start_ms)
            used.append(broker.start_cpu_ms)
    return f"{min(took):9.0f} ms, {min(used):.0f} ms of processor time"


def metadata_ms(broker: Broker) -> str:
    """Return the times of a Metadata request for all topics."""
    took = []
    for _ in range(50):
        began = time.perf_counter()
        answer = broker.call(METADATA, 12, METADATA.request(topics=None))
        took.append(1000 * (time.perf_counter() - began))
    assert sum(len(topic.partitions) for topic in answer.topics) >= PARTITIONS
    return f"{min(took):9.1f} ms, median {statistics.median(took):.1f} ms"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        folder = Path(scratch)
        print(f"start, empty                 {starts(folder)}")
        with running(folder) as broker:
            time.sleep(1)
            print(f"memory, idle                 {broker.memory_mb():9.1f} MB")
            began = time.perf_counter()
            topic = CreatableTopic(name="many", num_partitions=PARTITIONS, replication_factor=1)
            broker.call(CREATE_TOPICS, 7, CREATE_TOPICS.request(topics=[topic], timeout_ms=60_000))
            print(f"create {PARTITIONS} partitions       {1000 * (time.perf_counter() - began):9.0f} ms")
        print(f"start, {PARTITIONS} partitions       {starts(folder)}")
        with running(folder) as broker:
            print(f"Metadata of {PARTITIONS} partitions  {metadata_ms(broker)}")
            print(f"memory, {PARTITIONS} partitions      {broker.memory_mb():9.1f} MB")


if __name__ == "__main__":
    main()
