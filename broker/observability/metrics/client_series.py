"""What clients have pushed of their own metrics, as families for prometheus-client, in the thread that was asked."""

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
    """What prometheus-client asks. `take` has the loop give the series. Raises what its result raises."""

    def __init__(self, take: Callable[[], Future[list[Series]]]) -> None:
        self._take = take

    def describe(self) -> Iterator[Family]:
        """None: what clients push is not known before they do."""
        return iter(())

    def collect(self) -> Iterator[Family]:
        """The series by their names. A name is a counter or a gauge, for all clients: what was pushed first."""
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
