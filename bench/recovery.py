"""Measure recovery after kill -9, beside Apache Kafka on the same files: `python -m bench recovery [--megabytes N]`.

Writes a directory with many partitions in the state that a killed broker leaves. Each broker starts on it, and again
after a clean stop; the difference of the two times is the recovery. On a busy machine, processor seconds are more
reliable than the clock's. The files are in the page cache for both. At full size, 10,000 MB in 100 partitions, it needs
20 GB of disk.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.compare import Kafka
from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopic
from protocol.records.builder import BatchBuilder
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from tests.support.brokers import HOST, OurBroker, RunningBroker
from tests.support.wire import WireClient

TOPIC = "recovered"


def batches(size: int, count: int, now_ms: int) -> list[bytearray]:
    """Return batches of one idempotent producer, of about `size` bytes each, with records of at most 1 kB."""
    records = max(1, size // 1000)
    value = bytes(size // records - 8 - 61 // records)
    made = []
    for number in range(count):
        builder = BatchBuilder(producer_id=7, producer_epoch=0, base_sequence=number * records)
        for _ in range(records):
            builder.append(now_ms, None, value)
        made.append(bytearray(builder.build()))
    return made


def fill(log_dir: Path, megabytes: int, batch_bytes: int) -> int:
    """Append to all partitions in turn, and end without closing the logs; return the bytes written."""
    now_ms = int(time.time() * 1000)
    logs = LogManager([str(log_dir)])
    logs.load(lambda topic: LogConfig(), now_ms)
    partitions = [log for (topic, _), log in logs.logs.items() if topic == TOPIC]
    made = batches(batch_bytes, max(1, (megabytes << 20) // len(partitions) // batch_bytes), now_ms)
    for batch in made:
        for log in partitions:
            batch[:8] = bytes(8)
            log.append(batch, leader_epoch=0, now_ms=now_ms)
    for log in partitions:
        log.close_files()
    os.sync()
    return sum(log.size_bytes for log in partitions)


def prepare(folder: Path, options: argparse.Namespace) -> int:
    """Make a directory in the state that a killed broker leaves; return the bytes to be recovered."""
    broker = OurBroker(folder)
    with WireClient(HOST, broker.port) as client:
        topic = CreatableTopic(name=TOPIC, num_partitions=options.partitions, replication_factor=1)
        client.call(CREATE_TOPICS, 5, topics=[topic], timeout_ms=60_000)
    broker.stop(60)
    size = fill(broker.log_dir, options.megabytes, options.batch)
    assert not (broker.log_dir / ".kafka_cleanshutdown").exists()
    return size


def processor_s(broker: RunningBroker) -> float:
    """Return the processor time of the broker and of its finished recovery processes."""
    fields = Path(f"/proc/{broker.pid}/stat").read_text().rpartition(")")[2].split()[11:15]
    return sum(map(int, fields)) / os.sysconf("SC_CLK_TCK")


def measure(kind: type[RunningBroker], folder: Path, size: int) -> tuple[float, float]:
    """Start a broker twice, with recovery and after a clean stop; return the recovery's clock and processor seconds."""
    kind.start_timeout_s = 3600
    began = time.perf_counter()
    broker = kind(folder)
    first, first_processor = time.perf_counter() - began, processor_s(broker)
    broker.stop(600)
    began = time.perf_counter()
    broker.start()
    second, second_processor = time.perf_counter() - began, processor_s(broker)
    broker.stop(600)
    took, processor = max(first - second, 1e-3), max(first_processor - second_processor, 1e-3)
    print(
        f"{kind.kind:6} start with recovery {first:7.2f} s, clean {second:6.2f} s: recovery {took:7.2f} s, "
        f"{size / took / 1e6:6.0f} MB/s; processors {processor:6.2f} s, {size / processor / 1e6:6.0f} MB/s",
        flush=True,
    )
    return took, processor


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench recovery", description=__doc__.partition(":")[0])
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--batch", type=int, default=16_000, help="bytes of a batch")
    parser.add_argument("--ours", action="store_true", help="measure pybroker alone")
    parser.add_argument("--folder", help="a folder with enough free space")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.folder) as scratch:
        ours, theirs = Path(scratch) / "ours", Path(scratch) / "kafka"
        size = prepare(ours, options)
        print(f"{size / 1e6:.0f} MB in {options.partitions} partitions, batches of {options.batch} bytes")
        if not options.ours:
            subprocess.run(["cp", "-r", "--sparse=always", str(ours), str(theirs)], check=True)
        took, processor = measure(OurBroker, ours, size)
        shutil.rmtree(ours)
        if not options.ours:
            their_took, their_processor = measure(Kafka, theirs, size)
            print(f"ratio by the clock {their_took / took:.1f}, of processors {their_processor / processor:.1f}")


if __name__ == "__main__":
    main(sys.argv[1:])
