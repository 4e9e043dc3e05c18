"""What `/totals` answers: a few numbers of the broker as JSON, for whoever draws curves of it every few seconds.

They are as many however many topics there are, which `/metrics` tells one by one; each open log takes half a
microsecond.
"""

from __future__ import annotations

import json
from collections import Counter

from prometheus_client.registry import Collector

from broker.observability.metrics.metric import Buckets, Timings
from broker.observability.metrics.snapshot import Snapshot


def totals_json(snapshot: Snapshot, process: Collector) -> bytes:
    """An object of numbers, by the names of their samples at `/metrics`; for any thread.

    Samples of a metric are added up, and of one that has several numbers there are `_count` and `_sum`.

    Args:
        snapshot: of the broker.
        process: prometheus-client's numbers of the process.
    """
    told: Counter[str] = Counter()
    for metric, samples in snapshot.items():
        for _, value in samples:
            if isinstance(value, (Timings, Buckets)):
                told[f"{metric.name}_count"] += value.count
                told[f"{metric.name}_sum"] += value.total  # type: ignore[assignment]  # a Counter adds floats as well
            else:
                told[metric.name] += value  # type: ignore[assignment]
    for family in process.collect():
        told.update({sample.name: sample.value for sample in family.samples})
    return json.dumps(told).encode() + b"\n"
