"""Measure the cleaner's speed beside Apache Kafka's: `python -m bench compaction [--megabytes 100] [--alone]`.

A figure is the MB read for each second of processor time, in one round over a log that was never cleaned. Batches have
100 records unless the shape says otherwise. Our cleaner runs in this process. Apache Kafka gets a copy of the same
directory and cleans one log after the other; its first two rounds warm it up and do not count. Of Apache Kafka, only
the processor time of the cleaner thread counts, without the JIT compiler and the garbage collector.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from bench.compare import Kafka
from protocol.records.builder import BatchBuilder
from protocol.records.compression import Codec
from storage.cleaner.job import CleanJob, Resources
from storage.cleaner.round import clean
from storage.cleaner.selection import find_cleanable
from storage.log.directory import LogDirectory
from storage.log.partition_log import PartitionLog
from storage.log.stored_log import StoredLog
from storage.log_config import LogConfig
from storage.recovery.loading import load_log
from tests.support.brokers import OurBroker
from tests.support.eventually import eventually

T0 = 1_700_000_000_000
SEGMENT_BYTES = 64 << 20
#: Settings with which Apache Kafka does nothing but clean.
KAFKA_PROPERTIES = {"log.cleaner.backoff.ms": "100", "log.retention.ms": "-1"}
DEADLINE_S = 300


@dataclass(frozen=True, slots=True)
class Shape:
    """A log: distinct keys as a share of its records (1: no key repeats), value sizes, records in a batch."""

    name: str
    distinct: float = 0.1
    value_bytes: int = 100
    spread_bytes: int = 0  # the largest difference of a value's size from `value_bytes`
    batch_records: int = 100
    codec: Codec = Codec.NONE


SHAPES = (
    Shape("100 B, one in ten remains"),
    Shape("the same, of 50 to 150 B", spread_bytes=50),
    Shape("the same, all remain", distinct=1.0),
    Shape("records of 1 kB", value_bytes=1000),
    Shape("100 B, lz4", codec=Codec.LZ4),
    Shape("100 B, zstd", codec=Codec.ZSTD),
    Shape("batches of one record", batch_records=1),
    Shape("the same, of 50 to 150 B", spread_bytes=50, batch_records=1),
)
WARM_UP = (SHAPES[1], SHAPES[4])


def fill(log: PartitionLog, shape: Shape, size_bytes: int) -> None:
    """Append records with compressible text as values and the keys of Apache Kafka's own performance tests."""
    chance = random.Random(1)
    words = b" ".join(b"%x" % chance.getrandbits(20) for _ in range(5000))
    records = size_bytes // (shape.value_bytes + 25)
    keys = max(1, int(records * shape.distinct))
    number = 0
    while number < records:
        builder = BatchBuilder(codec=shape.codec)
        for _ in range(shape.batch_records):
            key = number if shape.distinct == 1.0 else chance.randrange(keys)
            size = chance.randint(shape.value_bytes - shape.spread_bytes, shape.value_bytes + shape.spread_bytes)
            start = chance.randrange(len(words) - size)
            builder.append(T0 + number // 10, b"user-%010d" % key, words[start : start + size])
            number += 1
        log.append(bytearray(builder.build()), leader_epoch=0, now_ms=T0)
    log.roll(log.log_end_offset, T0)


def make(directory: Path, shape: Shape, size_bytes: int) -> CleanJob:
    """Fill the partition in `directory` (created if missing) and close it; return a job that cleans all of it."""
    config = LogConfig(segment_bytes=SEGMENT_BYTES)
    topic = directory.name.removesuffix("-0")
    log = load_log(LogDirectory(str(directory.parent)), StoredLog(str(directory), topic, 0, config, T0, clean=True))
    fill(log, shape, size_bytes)
    log.config = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=SEGMENT_BYTES)
    cleanable = find_cleanable(log, None, T0)
    assert cleanable is not None
    job = cleanable.job(Resources(), T0)
    log.recovery_point = log.log_end_offset
    log.close()
    return job


def rate(job: CleanJob) -> float:
    """Return the MB cleaned for each second of processor time."""
    began = time.process_time()
    result = clean(job)
    return result.read_bytes / 1e6 / (time.process_time() - began)


class KafkaCleaner:
    """Apache Kafka on a directory in which a log is cleaned only when `seconds` names it."""

    def __init__(self, root: Path) -> None:
        self._broker = Kafka(root, {**KAFKA_PROPERTIES, "log.cleaner.threads": "1"})
        self._admin = AdminClient({"bootstrap.servers": self._broker.bootstrap, "log_level": 0})

    def stop(self) -> None:
        self._broker.stop()

    def seconds(self, topic: str) -> float:
        """Return the cleaner's processor time for one round over the topic."""
        before = self._processor_s()
        policy = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[policy])
        for altered in self._admin.incremental_alter_configs([resource]).values():
            altered.result()
        eventually(
            self._cleaned,
            f"Apache Kafka cleans {topic}",
            until=lambda found: topic in found,
            timeout_s=DEADLINE_S,
            interval_s=0.05,
        )
        return self._processor_s() - before

    def _cleaned(self) -> Iterable[str]:
        path = self._broker.log_dir / "cleaner-offset-checkpoint"
        return [line.split()[0] for line in path.read_text().splitlines()[2:]] if path.exists() else []

    def _processor_s(self) -> float:
        ticks = 0
        for stat in Path(f"/proc/{self._broker.pid}/task").glob("*/stat"):
            name, fields = stat.read_text().split("(", 1)[1].rsplit(")", 1)
            if name.startswith("kafka-log-clean"):
                ticks += sum(map(int, fields.split()[11:13]))
        return ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def kafka_cleaner(root: Path) -> Iterator[KafkaCleaner]:
    cleaner = KafkaCleaner(root)
    try:
        yield cleaner
    finally:
        cleaner.stop()


def make_topics(root: Path, names: list[str]) -> Path:
    """Create a log directory with empty topics that neither broker cleans or deletes from."""
    broker = OurBroker(root)
    try:
        config = {"cleanup.policy": "delete", "retention.ms": "-1", "segment.bytes": str(SEGMENT_BYTES)}
        topics = [NewTopic(name, 1, 1, config=config) for name in names]
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        for made in admin.create_topics(topics).values():
            made.result()
    finally:
        broker.stop()
    return broker.log_dir


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=100, help="size of each log")
    parser.add_argument("--alone", action="store_true", help="without Apache Kafka")
    parser.add_argument("--directory", help="where the logs are created, and deleted afterwards")
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="bench-", dir=options.directory))
    shapes = SHAPES if options.alone else (*SHAPES, *WARM_UP)
    names = [f"shape{number}" for number in range(len(shapes))]
    try:
        logs = make_topics(root / "pybroker", names)
        jobs = [
            make(logs / f"{name}-0", shape, options.megabytes << 20) for name, shape in zip(names, shapes, strict=True)
        ]
        if options.alone:
            for shape, job in zip(SHAPES, jobs, strict=True):
                print(f"{shape.name:28} {rate(job):7.1f} MB/s", flush=True)
            return
        shutil.copytree(logs, root / "kafka" / "logs")
        with kafka_cleaner(root / "kafka") as cleaner:
            for name in names[len(SHAPES) :]:
                cleaner.seconds(name)
            for name, shape, job in zip(names, SHAPES, jobs, strict=False):
                ours = rate(job)
                theirs = sum(each.size_bytes for each in job.segments) / 1e6 / cleaner.seconds(name)
                print(
                    f"{shape.name:28} {ours:7.1f} MB/s; Apache Kafka {theirs:7.1f}; ratio {ours / theirs:5.2f}",
                    flush=True,
                )
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
