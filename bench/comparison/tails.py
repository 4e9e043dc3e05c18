"""Measure how long a record takes from a producer to a consumer that waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bench.comparison import generator
from bench.comparison.brokers import create
from bench.comparison.figures import Category, Figure
from bench.comparison.generator import Outcomes
from bench.comparison.loads import batch
from bench.comparison.plan import Client, consumer, producer
from bench.comparison.session import Session, make_figure
from tests.support.brokers import RunningBroker

RECORD_BYTES = 200
_MAX_WAIT_MS = 500
#: Partitions, each with a producer and a consumer, and records a second in all.
TAILS = {"tail": (1, 500), "tail of eight": (8, 2000)}


def clients(topic: str, partitions: int, per_second: float) -> list[Client]:
    """Return a producer and a consumer for each partition."""
    record = batch(1, RECORD_BYTES)
    made = []
    for number in range(partitions):
        pair = str(number)
        sender = producer("producers", topic, number, record)
        made.append(replace(sender, per_second=per_second / partitions, pair=pair))
        reader = consumer("consumers", topic, number, 1 << 20, batch=record, records=1, max_wait_ms=_MAX_WAIT_MS)
        made.append(replace(reader, pair=pair))
    return made


def measure(session: Session, name: str) -> Iterator[Figure]:
    """Measure one of TAILS."""
    partitions, per_second = TAILS[name]

    def once(broker: RunningBroker, seconds: float) -> Outcomes:
        topic = session.new_name("tail")  # a new one each time: readers begin at the front
        create(broker, topic, partitions)
        return generator.run(broker, seconds, clients(topic, partitions, per_second))

    found = session.alternate(once)
    yield make_figure(
        Category.LATENCY, name, "ms end to end, median", found, lambda each: each.groups["consumers"].p50_ms
    )
    yield make_figure(
        Category.LATENCY, name, "ms end to end, 99 of 100", found, lambda each: each.groups["consumers"].p99_ms
    )
    yield make_figure(
        Category.CPU, name, "CPU us a record", found, lambda each: each.cpu_s * 1e6 / each.groups["producers"].requests
    )
