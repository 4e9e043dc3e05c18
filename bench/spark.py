"""Spark's sources beside each other: `python -m bench spark [--records 5000000] [--codec lz4] [--cores 4]`.

Reads the same records in batches that discard the rows (Spark's `noop`):

    connector   Spark's own Kafka source, with its jars; it also reads from Apache Kafka
    pybroker    the source without a jar, over the wire
    log         the source on the data directory of our broker, while it runs

`--columns` limits the columns. The sources take turns; the first round is a warm-up. "Times the connector's rate" is
the rate as a multiple of the connector's rate with pybroker in the same round. "Kafka's multiple" is Apache Kafka's
processor time a GB with the connector, divided by that of pybroker with this source. Processor time of Spark is that of
the JVM, Python's workers and their children. No process is bound to a core.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from bench.comparison import machine
from bench.comparison.brokers import BOTH, create
from bench.comparison.figures import rounded
from bench.comparison.usage import cpu_seconds
from pybroker.pipeline.session import connector_jars, start_session
from pybroker.spark import register
from tests.support.brokers import RunningBroker

TOPIC = "lines"
_WORDS = 4096


@dataclass(frozen=True)
class Round:
    """One reading: its seconds, and the processor time of Spark and of the broker that serves it, in seconds."""

    seconds: float
    spark_s: float
    broker_s: float


def fill(broker: RunningBroker, records: int, size: int, partitions: int, codec: str) -> int:
    """Write records with short keys and values of `size` bytes; return their bytes in the log."""
    create(broker, TOPIC, partitions)
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "compression.type": codec,
            "linger.ms": 100,
            "batch.size": 256 << 10,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    words = [bytes(random.choices(b"abcdefghijklmnopqrstuvwxyz 0123456789/.", k=size)) for _ in range(_WORDS)]
    for number in range(records):
        while True:
            try:
                producer.produce(TOPIC, words[number % _WORDS], b"%d" % number, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.1)
        if not number % 10_000:
            producer.poll(0)
    assert producer.flush(600) == 0
    return sum(path.stat().st_size for path in broker.log_dir.glob(f"{TOPIC}-*/*.log"))


@contextmanager
def opened(cores: int) -> Iterator[SparkSession]:
    """Open Spark with `cores` threads."""
    settings = {"spark.driver.memory": "2g", "spark.jars": connector_jars()}
    session = start_session("bench", f"local[{cores}]", settings)
    register(session)
    try:
        yield session
    finally:
        session.stop()


def rows_of(session: SparkSession, source: str, broker: RunningBroker, columns: str) -> DataFrame:
    """Return all rows; `columns` are separated by commas, or empty for all."""
    if source == "log":
        reader = session.read.format("pybroker-log").option("path", str(broker.log_dir)).option("subscribe", TOPIC)
    else:
        reader = session.read.format("kafka" if source == "connector" else "pybroker").options(
            **{"kafka.bootstrap.servers": broker.bootstrap, "subscribe": TOPIC}
        )
    if source == "connector":
        rows = reader.load()
        return rows.select(*columns.split(",")) if columns else rows
    return (reader.option("columns", columns) if columns else reader).load()


def read_once(session: SparkSession, source: str, broker: RunningBroker, columns: str) -> Round:
    rows = rows_of(session, source, broker, columns)
    spark_before, broker_before, begun = _spark_seconds(), cpu_seconds(broker.pid), time.perf_counter()
    rows.write.format("noop").mode("overwrite").save()
    seconds = time.perf_counter() - begun
    return Round(seconds, _spark_seconds() - spark_before, cpu_seconds(broker.pid) - broker_before)


def _spark_seconds() -> float:
    """Return the processor time of the JVM that this process started; brokers are not counted."""
    return cpu_seconds(SparkContext._gateway.proc.pid)  # type: ignore[union-attr]


def _median(rounds: Sequence[Round], value: Callable[[Round], float]) -> float:
    return statistics.median(value(each) for each in rounds)


def table(cores: int, found: dict[tuple[str, str], list[Round]], records: int, sizes: dict[str, int]) -> Iterator[str]:
    """Return the rows of the table; ratios are medians of the rounds' ratios."""
    baseline = found["connector", "ours"]
    kafka_rounds = found.get(("connector", "kafka"))
    for (source, kind), rounds in found.items():
        ratios = [base.seconds / each.seconds for each, base in zip(rounds, baseline, strict=True)]
        gigabytes = sizes[kind] / 1e9
        broker_s = _median(rounds, lambda each: each.broker_s) / gigabytes
        broker_ratio = ""
        if kafka_rounds is not None and kind == "ours" and source != "log":
            broker_ratio = rounded(
                (_median(kafka_rounds, lambda each: each.broker_s) / (sizes["kafka"] / 1e9)) / max(broker_s, 1e-9)
            )
        cells = (
            f"local[{cores}]",
            source,
            {"ours": "pybroker", "kafka": "Apache Kafka"}[kind] if source != "log" else "its files",
            rounded(records / _median(rounds, lambda each: each.seconds)),
            rounded(statistics.median(ratios)),
            rounded(_median(rounds, lambda each: each.spark_s) / records * 1e6),
            rounded(broker_s) if source != "log" else "",
            broker_ratio,
        )
        yield f"| {' | '.join(cells)} |"


HEAD = (
    "| Spark | source | served by | records/s | times the connector's rate | Spark, us of processor time a record "
    "| broker, s of processor time a GB | Kafka's multiple |\n|---|---|---|---:|---:|---:|---:|---:|"
)


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="Spark's sources beside each other")
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--size", type=int, default=190, help="bytes of a value")
    parser.add_argument("--codec", default="none", choices=("none", "gzip", "snappy", "lz4", "zstd"))
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--columns", default="", help="columns to read, separated by commas (default: all)")
    parser.add_argument("--alone", action="store_true", help="without Apache Kafka")
    options = parser.parse_args(argv)
    lines: list[str] = []
    with tempfile.TemporaryDirectory(prefix="spark-") as scratch:
        brokers: dict[str, RunningBroker] = {}
        try:
            for start in BOTH[:1] if options.alone else BOTH:
                brokers[start.kind] = start(Path(scratch) / start.kind)
            sizes = {
                kind: fill(broker, options.records, options.size, options.partitions, options.codec)
                for kind, broker in brokers.items()
            }
            ways = [("connector", "ours"), ("pybroker", "ours"), ("log", "ours"), ("connector", "kafka")]
            ways = [way for way in ways if way[1] in brokers]
            for cores in options.cores:
                with opened(cores) as session:
                    found: dict[tuple[str, str], list[Round]] = {way: [] for way in ways}
                    for number in range(1 + options.rounds):
                        for source, kind in ways:
                            once = read_once(session, source, brokers[kind], options.columns)
                            print(f"local[{cores}] round {number} {source:9} {kind:5} {once}", flush=True)
                            if number:
                                found[source, kind].append(once)
                lines += table(cores, found, options.records, sizes)
        finally:
            for broker in brokers.values():
                broker.stop()
    print(
        f"\nMeasured on: {machine.description()}. {options.records:,} records of {options.size} bytes, {options.codec}"
    )
    print(f"in {options.partitions} partitions, {options.rounds} rounds; columns: {options.columns or 'all'}\n\n{HEAD}")
    print("\n".join(lines))


if __name__ == "__main__":
    main(sys.argv[1:])
