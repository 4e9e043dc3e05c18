"""The answer of `/totals`: a few numbers of the broker as JSON, for curves that are updated every few seconds.

Their count does not depend on the number of topics, unlike that of `/metrics`; each open log takes half a microsecond.
"""

from __future__ import annotations

import json
from collections import Counter

from prometheus_client.registry import Collector

from broker.observability.metrics.metric import Buckets, Timings
from broker.observability.metrics.snapshot import Snapshot


def totals_json(snapshot: Snapshot, process: Collector) -> bytes:
    """Return an object with numbers by the names of their samples at `/metrics`. Safe in any thread.

    Samples of a metric are added; a metric with several numbers has `_count` and `_sum`.

    Args:
        snapshot: the broker's samples.
        process: prometheus-client's collector of the process.
    """
    totals: Counter[str] = Counter()
    for metric, samples in snapshot.items():
        for _, value in samples:
            if isinstance(value, (Timings, Buckets)):
                totals[f"{metric.name}_count"] += value.count
                totals[f"{metric.name}_sum"] += value.total  # type: ignore[assignment]  # a Counter adds floats as well
            else:
                totals[metric.name] += value  # type: ignore[assignment]
    for family in process.collect():
        totals.update({sample.name: sample.value for sample in family.samples})
    return json.dumps(totals).encode() + b"\n"
