"""Convert the metrics that clients pushed to families for prometheus-client, in the thread of the request."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future

from prometheus_client.core import Metric as Family
from prometheus_client.core import Sample as FamilySample
from prometheus_client.registry import Collector

from broker.observability.metrics.exposition import ANSWER_S, AT_ONCE, PAUSE_S
from broker.observability.telemetry.received import Series


class ClientCollector(Collector):
    """The collector for prometheus-client. `take` returns the loop's series. Passes on exceptions of its result."""

    def __init__(self, take: Callable[[], Future[list[Series]]]) -> None:
        self._take = take

    def describe(self) -> Iterator[Family]:
        """Return nothing: the metrics of clients are unknown before they push them."""
        return iter(())

    def collect(self) -> Iterator[Family]:
        """Yield the series by name. The first push decides for all clients whether a name is a counter or a gauge."""
        families: dict[str, Family] = {}
        for number, series in enumerate(self._take().result(ANSWER_S), 1):
            name, kind = series.name.removesuffix("_total"), "counter" if series.is_counter else "gauge"
            family = families.get(name)
            if family is None:
                shown = name if series.is_counter else series.name
                family = families[name] = Family(shown, f"{series.origin}, as clients push it.", kind)
            if family.type == kind:
                family.samples.append(FamilySample(series.name, dict(series.labels), series.value))
            if number % AT_ONCE == 0:
                time.sleep(PAUSE_S)
        yield from families.values()
