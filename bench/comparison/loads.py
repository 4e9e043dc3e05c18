"""Loads that saturate a broker: many small requests, batches, bytes; and their costs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from bench.comparison import generator
from bench.comparison.figures import Category, Figure
from bench.comparison.generator import Outcomes
from bench.comparison.plan import Client, consumer, producer
from bench.comparison.session import Session, make_figure
from protocol.records.builder import BatchBuilder
from protocol.records.compression import Codec
from tests.support.brokers import RunningBroker

#: Bytes that fetches read: they fit into the page cache and are below the retention limit.
SOURCE_BYTES = 400_000_000
_FILLING_S = 600


@dataclass(frozen=True, slots=True)
class Load:
    """`connections` clients, each with `in_flight` outstanding requests; batches of `records`.

    `max_bytes`: of a fetch; 0: the clients produce. `by_bytes`: figures are per byte, not per request.
    """

    topic: str
    partitions: int
    connections: int
    in_flight: int
    records: int
    record_bytes: int
    codec: Codec = Codec.NONE
    max_bytes: int = 0
    by_bytes: bool = False


MEDIUM, LARGE = (100, 100), (1000, 1000)
LOADS = {
    "small": Load("small", 10, 100, 1, 1, 100),
    "one connection": Load("small", 10, 1, 1, 1, 100),
    "medium": Load("medium", 4, 4, 2, *MEDIUM),
    "medium-lz4": Load("medium-lz4", 4, 4, 2, *MEDIUM, Codec.LZ4),
    "medium-zstd": Load("medium-zstd", 4, 4, 2, *MEDIUM, Codec.ZSTD),
    "large": Load("large", 4, 4, 2, *LARGE, by_bytes=True),
    "fetch-small": Load("source-medium", 4, 20, 1, *MEDIUM, max_bytes=12_000),
    "fetch-medium": Load("source-medium", 4, 4, 1, *MEDIUM, max_bytes=1 << 20, by_bytes=True),
    "fetch-large": Load("source-large", 4, 4, 1, *LARGE, max_bytes=1 << 20, by_bytes=True),
}


def batch(records: int, record_bytes: int, codec: Codec = Codec.NONE) -> bytes:
    """Return a batch of records that differ from each other."""
    builder = BatchBuilder(codec=codec)
    now_ms = time.time_ns() // 1_000_000
    for number in range(records):
        text = b"%d user=%d page=/item/%d " % (number, number * 7919 % 1000, number * 104729 % 5000)
        builder.append(now_ms, None, (text * (record_bytes // len(text) + 1))[:record_bytes])
    return builder.build()


def clients(load: Load) -> list[Client]:
    """Return the clients of a load, spread over its partitions."""
    records = batch(load.records, load.record_bytes, load.codec)
    made = []
    for number in range(load.connections):
        partition = number % load.partitions
        if load.max_bytes:
            one = consumer("load", load.topic, partition, load.max_bytes, batch=records, records=load.records)
        else:
            one = producer("load", load.topic, partition, records)
        made.append(replace(one, in_flight=load.in_flight))
    return made


def source(session: Session, load: Load) -> None:
    """Create and fill the topic that a load fetches from."""
    each_bytes = SOURCE_BYTES // load.partitions
    fillers = clients(replace(load, max_bytes=0, connections=load.partitions))
    fillers = [replace(each, limit_bytes=each_bytes) for each in fillers]

    def fill(broker: RunningBroker) -> None:
        generator.run(broker, _FILLING_S, fillers)

    session.topic(load.topic, load.partitions, fill)


def measure(session: Session, name: str) -> Iterator[Figure]:
    """Measure one of LOADS. Rates and latencies are left out where the generator, not the broker, limits them."""
    load = LOADS[name]
    if load.max_bytes:
        source(session, load)
    else:
        session.topic(load.topic, load.partitions)
    found = session.drive(clients(load))
    if load.by_bytes:
        yield make_figure(Category.CPU, name, "CPU s a GB", found, lambda each: each.cpu_s * 1e9 / _load(each).bytes)
    else:
        yield make_figure(
            Category.CPU, name, "CPU us a request", found, lambda each: each.cpu_s * 1e6 / _load(each).requests
        )
    if generator.language() == "Python":
        return
    if load.connections == 1:
        yield make_figure(Category.LATENCY, name, "ms a request, median", found, lambda each: _load(each).p50_ms)
        yield make_figure(Category.LATENCY, name, "ms a request, 99 of 100", found, lambda each: _load(each).p99_ms)
    elif load.by_bytes:
        yield make_figure(Category.RATE, name, "MB a second", found, _mb_per_second, more_is_better=True)
    else:
        yield make_figure(Category.RATE, name, "requests a second", found, _requests_per_second, more_is_better=True)


def _load(found: Outcomes) -> generator.Outcome:
    return found.groups["load"]


def _mb_per_second(found: Outcomes) -> float:
    return _load(found).bytes / _load(found).seconds / 1e6


def _requests_per_second(found: Outcomes) -> float:
    return _load(found).requests / _load(found).seconds
