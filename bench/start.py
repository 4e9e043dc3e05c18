"""Start with many partitions, and with many segments: `python -m bench start [--partitions N] [--segments N]`.

Time is from spawning the process until it answers; processor time is less disturbed by other work on the machine. Each
partition has a few batches; the unclean start has nothing else to check.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from bench.process import Broker, running
from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopic
from protocol.records.builder import BatchBuilder
from storage.fs import LOCAL
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from tests.support.batch_values import patch_in_place

BATCHES = 3
TOPICS = 10


def a_batch(now_ms: int) -> bytearray:
    builder = BatchBuilder()
    for _ in range(5):
        builder.append(now_ms, None, bytes(100))
    return bytearray(builder.build())


def make_partitions(folder: Path, count: int) -> None:
    """Make topics with `count` partitions in all, and a few batches in each."""
    with running(folder) as broker:
        for number in range(TOPICS):
            topic = CreatableTopic(name=f"many-{number}", num_partitions=count // TOPICS, replication_factor=1)
            broker.call(CREATE_TOPICS, 7, CREATE_TOPICS.request(topics=[topic], timeout_ms=60_000))
    now_ms = int(time.time() * 1000)
    logs = LogManager([str(folder / "data")])
    logs.load(lambda topic: LogConfig(), now_ms)
    for log in logs.logs.values():
        for _ in range(BATCHES):
            log.append(a_batch(now_ms), leader_epoch=0, now_ms=now_ms)
    logs.close(now_ms)


def make_segments(folder: Path, count: int) -> None:
    """Make a partition of `count` segments, of one batch each."""
    with running(folder) as broker:
        topic = CreatableTopic(name="long", num_partitions=1, replication_factor=1)
        broker.call(CREATE_TOPICS, 7, CREATE_TOPICS.request(topics=[topic], timeout_ms=60_000))
    now_ms = int(time.time() * 1000)
    batch = a_batch(now_ms)
    for number in range(count):
        patch_in_place(batch, 0, 5 * number, 0)
        prefix = f"{folder}/data/long-0/{5 * number:020d}"
        LOCAL.write_file(f"{prefix}.log", bytes(batch))
        LOCAL.write_file(f"{prefix}.index", b"")
        LOCAL.write_file(f"{prefix}.timeindex", now_ms.to_bytes(8, "big") + (4).to_bytes(4, "big"))


def show(name: str, broker: Broker) -> None:
    user, system = Path(f"/proc/{broker.process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    processor_s = (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    print(
        f"{name:44} {broker.start_ms:7.0f} ms, processor {processor_s:5.2f} s, memory {broker.memory_mb():6.1f} MB",
        flush=True,
    )


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench start", description=__doc__.partition(":")[0])
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--segments", type=int, default=10_000)
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        folder = Path(scratch) / "partitions"
        folder.mkdir()
        make_partitions(folder, options.partitions)
        for _ in range(2):
            with running(folder) as broker:
                show(f"{options.partitions} partitions, clean", broker)
        (folder / "data" / ".kafka_cleanshutdown").unlink()
        with running(folder) as broker:
            show(f"{options.partitions} partitions, after an unclean stop", broker)
        folder = Path(scratch) / "segments"
        folder.mkdir()
        make_segments(folder, options.segments)
        for _ in range(2):
            with running(folder) as broker:
                show(f"one partition of {options.segments} segments, clean", broker)


if __name__ == "__main__":
    main(sys.argv[1:])
