"""Measure the latency of small produces, alone and beside a client that does something large.

All clients send at a fixed pace (small produces: 1,000 a second), so that both brokers do the same work.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace

from bench.comparison import generator
from bench.comparison.figures import Category, Figure
from bench.comparison.generator import Outcomes
from bench.comparison.loads import LOADS, batch, source
from bench.comparison.plan import Client, consumer, producer
from bench.comparison.session import Session, make_figure
from tests.support.brokers import RunningBroker

_CONNECTIONS, _PER_SECOND = 10, 1000
_TOPIC, _LARGE_TOPIC = "mixed-small", "mixed-large"
_SOURCE = LOADS["fetch-large"]
_MIB = 1 << 20


def _small() -> list[Client]:
    record = batch(1, 100)
    clients = [producer("small", _TOPIC, number, record) for number in range(_CONNECTIONS)]
    return [replace(each, per_second=_PER_SECOND / _CONNECTIONS) for each in clients]


def _readers(group: str, max_bytes: int, **how: float) -> list[Client]:
    """Return a reader for each partition of the source."""
    records = batch(_SOURCE.records, _SOURCE.record_bytes)
    clients = [
        consumer(group, _SOURCE.topic, index, max_bytes, batch=records, records=_SOURCE.records)
        for index in range(_SOURCE.partitions)
    ]
    return [replace(each, **how) for each in clients]  # type: ignore[arg-type]


def _cold_readers() -> list[Client]:
    """Read 40 MiB a second: slow enough not to reach the end in nine seconds, where data would be cached."""
    return _readers("cold", _MIB, per_second=10)


def _large_producer() -> list[Client]:
    return [replace(producer("large", _LARGE_TOPIC, 0, batch(1000, 1000)), per_second=50)]


def _slow_readers() -> list[Client]:
    return _readers("slow", 50 * _MIB, read_bytes_per_second=20 * _MIB)


def _huge_fetch() -> list[Client]:
    return _readers("huge", 50 * _MIB, per_second=2)[:1]


def _huge_produce() -> list[Client]:
    """Send the largest request that a broker accepts by default (socket.request.max.bytes), in one batch."""
    return [replace(producer("huge", _LARGE_TOPIC, 1, batch(100, 1_000_000)), per_second=1)]


#: The loads that run beside the small produces.
BESIDE: dict[str, Callable[[], list[Client]]] = {
    "alone": list,
    "beside slow readers": _slow_readers,
    "beside fetches of 50 MiB": _huge_fetch,
    "beside 1 MB batches": _large_producer,
    "beside cold fetches": _cold_readers,
    "beside both": lambda: _cold_readers() + _large_producer(),
    "beside 100 MB requests": _huge_produce,  # last, as some heaps do not survive it
}


def forget(broker: RunningBroker, topic: str) -> None:
    """Flush a topic's files and evict them from the page cache."""
    for path in broker.log_dir.glob(f"{topic}-*/*.log"):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)  # dirty pages are not evicted
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)


def measure(session: Session) -> Iterator[Figure]:
    """Measure p99 and the maximum latency of small produces, beside each of BESIDE."""
    session.topic(_TOPIC, _CONNECTIONS)
    session.topic(_LARGE_TOPIC, 2)
    source(session, _SOURCE)
    for name, others in BESIDE.items():
        clients = _small() + others()

        def once(broker: RunningBroker, seconds: float, clients: list[Client] = clients) -> Outcomes:
            if any(client.group == "cold" for client in clients):
                forget(broker, _SOURCE.topic)
            return generator.run(broker, seconds, clients)

        found = session.alternate(once)
        load = f"small produces {name}"
        yield make_figure(Category.LATENCY, load, "ms, 99 of 100", found, lambda each: each.groups["small"].p99_ms)
        yield make_figure(Category.LATENCY, load, "ms, the longest", found, lambda each: each.groups["small"].max_ms)
