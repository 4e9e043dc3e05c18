"""Convert samples to the families that prometheus-client writes, in the thread of the request.

A computing thread holds Python's interpreter lock, and so blocks the loop, for milliseconds at a time. Therefore this
one pauses after some samples.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path

from prometheus_client.core import Metric as Family
from prometheus_client.core import Sample as FamilySample
from prometheus_client.registry import Collector

from broker.observability.metrics.metric import (
    Buckets,
    Kind,
    Metric,
    Timings,
    Value,
)
from broker.observability.metrics.metric_table import (
    DIRECTORY_FREE,
    DIRECTORY_TOTAL,
    DISK_READ,
    DISK_WRITTEN,
    METRICS,
)
from broker.observability.metrics.snapshot import Samples, Snapshot

#: A request within this time gets the same samples again.
_KEPT_S = 1.0
#: The time limit for the loop's answer.
ANSWER_S = 10.0
#: Samples that are written without a pause, some half a millisecond; and the pause, in which the loop runs.
AT_ONCE, PAUSE_S = 200, 0.0005


class BrokerCollector(Collector):
    """The collector for prometheus-client. `paths` are those of the log directories.

    Passes on exceptions of `take` and its result: TimeoutError if the loop does not answer.
    """

    def __init__(self, take: Callable[[], Future[Snapshot]], paths: Sequence[str]) -> None:
        self._take = take
        self._paths = paths
        self._lock = threading.Lock()
        self._snapshot: Snapshot = {}
        self._taken_at = float("-inf")

    def describe(self) -> Iterator[Family]:
        """Yield all families without samples, from which prometheus-client learns their names."""
        return (Family(_family_name(each), each.doc, each.kind.value) for each in METRICS)

    def collect(self) -> Iterator[Family]:
        """Yield the families that have samples."""
        for metric, samples in self._latest().items():
            yield _family(metric, samples)
        yield from self._volumes()
        yield from self._disk_traffic()

    def _latest(self) -> Snapshot:
        with self._lock:
            if time.monotonic() - self._taken_at > _KEPT_S:
                self._snapshot = self._take().result(ANSWER_S)
                self._taken_at = time.monotonic()
            return self._snapshot

    def _volumes(self) -> Iterator[Family]:
        """Read the sizes of volumes here, not on the loop, because an unreachable disk may block."""
        found = []
        for path in self._paths:
            try:
                found.append((path, shutil.disk_usage(path)))
            except OSError:
                continue
        yield _family(DIRECTORY_TOTAL, [((path,), usage.total) for path, usage in found])
        yield _family(DIRECTORY_FREE, [((path,), usage.free) for path, usage in found])

    def _disk_traffic(self) -> Iterator[Family]:
        """Yield the process's disk traffic as the kernel counts it; nothing if it does not."""
        try:
            lines = Path("/proc/self/io").read_text().splitlines()
        except OSError:
            return
        counts = dict(line.split(": ") for line in lines)
        yield _family(DISK_READ, [((), int(counts["read_bytes"]))])
        yield _family(DISK_WRITTEN, [((), int(counts["write_bytes"]))])


class _Written:
    """A metric's samples as an iterable that creates them one by one, with pauses in which the loop runs."""

    def __init__(self, metric: Metric, samples: Samples) -> None:
        self._metric = metric
        self._samples = samples

    def __iter__(self) -> Iterator[FamilySample]:
        for number, (labels, value) in enumerate(self._samples, 1):
            yield from _written(self._metric, dict(zip(self._metric.labels, labels, strict=False)), value)
            if number % AT_ONCE == 0:
                time.sleep(PAUSE_S)


def _family_name(metric: Metric) -> str:
    return metric.name.removesuffix("_total") if metric.kind is Kind.COUNTER else metric.name


def _family(metric: Metric, samples: Samples) -> Family:
    family = Family(_family_name(metric), metric.doc, metric.kind.value)
    family.samples = _Written(metric, samples)  # type: ignore[assignment]  # they are only ever walked through
    return family


def _written(metric: Metric, labels: dict[str, str], value: Value) -> Iterator[FamilySample]:
    """Yield the samples in which a value of that kind is written."""
    if isinstance(value, Timings):
        for quantile, found in value.quantiles:
            yield FamilySample(metric.name, labels | {"quantile": quantile}, found)
        yield FamilySample(f"{metric.name}_count", labels, value.count)
        yield FamilySample(f"{metric.name}_sum", labels, value.total)
    elif isinstance(value, Buckets):
        for bound, count in value.counts:
            yield FamilySample(f"{metric.name}_bucket", labels | {"le": bound}, count)
        yield FamilySample(f"{metric.name}_count", labels, value.count)
        yield FamilySample(f"{metric.name}_sum", labels, value.total)
    else:
        yield FamilySample(metric.name, labels, float(value))
