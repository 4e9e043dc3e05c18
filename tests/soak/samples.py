"""Samples of a broker over time: memory, descriptors, and the latency for one client."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields

from tests.support.brokers import HOST, OurBroker
from tests.support.data_client import DataClient, Refused, batch
from tests.support.processes import open_descriptors, resident_bytes
from tests.support.wire import Closed

TOPIC = "probe"
EVERY_S = 1.0
_PROBES = 20


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample at one moment: memory in MiB, and the time in ms to write and read a record (median of `_PROBES`)."""

    seconds: float
    memory_mib: float
    descriptors: float
    median_ms: float
    slowest_ms: float


SERIES = {
    "memory_mib": "resident memory, MiB",
    "descriptors": "open descriptors",
    "median_ms": "write and read a record, median, ms",
    "slowest_ms": f"the slowest of {_PROBES}, ms",
}
assert set(SERIES) == {each.name for each in fields(Sample)} - {"seconds"}


class Sampler(threading.Thread):
    """Takes a sample every second while the broker runs."""

    def __init__(self, broker: OurBroker) -> None:
        super().__init__(daemon=True)
        self.broker = broker
        self.began = time.monotonic()
        self.samples: list[Sample] = []
        self.stopping = threading.Event()

    def run(self) -> None:
        """Sample until `stopping`. While the broker is being killed there is no sample."""
        while not self.stopping.wait(EVERY_S):
            try:
                self.samples.append(self._sample())
            except (Closed, OSError, Refused, StopIteration):
                continue

    def _sample(self) -> Sample:
        times_ms = []
        with DataClient(HOST, self.broker.port) as client:
            for _ in range(_PROBES):
                began = time.perf_counter()
                client.fetch(TOPIC, client.produce(TOPIC, batch(b"probe")))
                times_ms.append((time.perf_counter() - began) * 1000)
        times_ms.sort()
        pid = self.broker.pid
        memory = resident_bytes(pid) / (1 << 20)
        descriptors = open_descriptors(pid)
        since = time.monotonic() - self.began
        return Sample(since, memory, descriptors, times_ms[_PROBES // 2], times_ms[-1])


def judged(samples: Sequence[Sample], since: float) -> Sequence[Sample]:
    """Return the samples from a second on, without the first quarter, in which caches fill."""
    stretch = [each for each in samples if each.seconds >= since]
    return stretch[len(stretch) // 4 :]


def drift(samples: Sequence[Sample], name: str) -> float:
    """Return by how much a value grew from the first to the last sample, as a share of its median; 0 is flat.

    It is the median of the slopes between samples half of the time apart, so outliers have no weight.
    """
    half = len(samples) // 2
    if not half:
        return 0.0
    values = [float(getattr(each, name)) for each in samples]
    slopes = [
        (values[place + half] - values[place]) / (samples[place + half].seconds - samples[place].seconds)
        for place in range(len(samples) - half)
    ]
    lasted = samples[-1].seconds - samples[0].seconds
    return statistics.median(slopes) * lasted / max(statistics.median(values), 1e-9)
