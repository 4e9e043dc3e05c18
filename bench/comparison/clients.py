"""The clients that people use: Apache Kafka's performance tools, and librdkafka. They run on the load's core."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from confluent_kafka import Consumer, Producer

from bench.comparison.figures import Category, Figure
from bench.comparison.session import Session, make_figure
from bench.comparison.usage import cpu_seconds
from tests.support.brokers import RunningBroker
from tests.support.java import java_command, kafka_classpath

RECORD_BYTES, PARTITIONS = 100, 4
#: Records for each measured second; slow clients take longer.
_PER_SECOND = 250_000
_JAVA_OPTIONS = ("-Xmx512m", "-XX:+UseG1GC")
_PATIENCE_S = 600


@dataclass(frozen=True, slots=True)
class ClientRun:
    """One run of a client: records, seconds by the client's own account, the broker's processor time."""

    records: int
    seconds: float
    cpu_s: float


def produced(report: str) -> tuple[int, float]:
    """Return (records, seconds) from the last lines of kafka-producer-perf-test's output."""
    lines = re.findall(r"^(\d+) records sent, ([\d.]+) records/sec .*99th", report, re.MULTILINE)
    records, per_second = lines[-1]
    return int(records), int(records) / float(per_second)


def consumed(report: str) -> tuple[int, float]:
    """Return (records, seconds) from kafka-consumer-perf-test's output, without the time to join its group."""
    lines = [[cell.strip() for cell in line.split(",")] for line in report.splitlines() if "," in line]
    head = next(cells for cells in lines if cells[0] == "start.time")
    row = dict(zip(head, lines[lines.index(head) + 1], strict=True))
    return int(row["data.consumed.in.nMsg"]), int(row["fetch.time.ms"]) / 1000


def _tool(main: str, *arguments: str) -> str:
    command = java_command(main, arguments, [kafka_classpath()], options=_JAVA_OPTIONS)
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S)
    if done.returncode:
        raise SystemExit(f"{main} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def java_producer(broker: RunningBroker, topic: str, count: int) -> tuple[int, float]:
    """Run kafka-producer-perf-test with its defaults."""
    return produced(
        _tool(
            "org.apache.kafka.tools.ProducerPerformance",
            *("--topic", topic, "--num-records", str(count), "--record-size", str(RECORD_BYTES)),
            *("--throughput", "-1", "--producer-props", f"bootstrap.servers={broker.bootstrap}"),
        )
    )


def java_consumer(broker: RunningBroker, topic: str, count: int) -> tuple[int, float]:
    """Run kafka-consumer-perf-test with its defaults, in a group of its own."""
    return consumed(
        _tool(
            "org.apache.kafka.tools.ConsumerPerformance",
            *("--bootstrap-server", broker.bootstrap, "--topic", topic, "--messages", str(count)),
        )
    )


def librdkafka_producer(broker: RunningBroker, topic: str, count: int) -> tuple[int, float]:
    """Produce by confluent-kafka with its defaults, until all records are acknowledged."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    value = bytes(RECORD_BYTES)
    began = time.perf_counter()
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:  # its queue is full
                producer.poll(0.1)
    left = producer.flush(_PATIENCE_S)
    assert not left, f"{left} records were not acknowledged"
    return count, time.perf_counter() - began


def librdkafka_consumer(broker: RunningBroker, topic: str, count: int) -> tuple[int, float]:
    """Consume by confluent-kafka in a group of its own; measure from the first record."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": f"of-{topic}", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    until = time.perf_counter() + _PATIENCE_S
    received, began = 0, 0.0
    while received < count and time.perf_counter() < until:
        messages = consumer.consume(10_000, 0.1)
        began = began or (time.perf_counter() if messages else 0.0)
        received += len(messages)
    took = time.perf_counter() - began
    consumer.close()
    assert received >= count, f"{received} of {count} records came"
    return received, took


#: Each producer, and the consumer that reads its records.
CLIENTS: dict[str, Callable[[RunningBroker, str, int], tuple[int, float]]] = {
    "kafka-producer-perf-test": java_producer,
    "kafka-consumer-perf-test": java_consumer,
    "librdkafka produces": librdkafka_producer,
    "librdkafka consumes": librdkafka_consumer,
}


def measure(session: Session) -> Iterator[Figure]:
    """Measure each client's rate and the broker's processor time. Consumers read from the start of the topic."""
    session.topic("clients", PARTITIONS)
    for name, run in CLIENTS.items():

        def once(broker: RunningBroker, seconds: float, run: Callable[..., tuple[int, float]] = run) -> ClientRun:
            before = cpu_seconds(broker.pid)
            records, took = run(broker, "clients", max(1, round(seconds * _PER_SECOND)))
            return ClientRun(records, took, cpu_seconds(broker.pid) - before)

        found = session.alternate(once)
        yield make_figure(
            Category.RATE,
            name,
            "records a second",
            found,
            lambda each: each.records / each.seconds,
            more_is_better=True,
        )
        yield make_figure(Category.CPU, name, "CPU us a record", found, lambda each: each.cpu_s * 1e6 / each.records)
