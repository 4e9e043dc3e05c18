"""Report the progress of a pipeline: a line for each batch, a bar where the end is known, and metrics."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

_BAR_WIDTH = 30
#: The prefix of a source's name in the observed metrics of a batch.
OBSERVED = "source:"


@dataclass(frozen=True, slots=True)
class Batch:
    """A finished batch, from Spark's report."""

    query: str
    number: int
    records: int
    records_per_s: float
    unparsed: int
    lag: int  # offsets between its end and the end of the topics when it was planned
    late: int  # rows after the watermark, which were dropped

    @classmethod
    def of(cls, query: str, report: Mapping[str, Any]) -> Batch:
        """Make a batch from an entry of Spark's StreamingQuery.recentProgress."""
        counted = [row for name, row in report["observedMetrics"].items() if name.startswith(OBSERVED)]
        late = sum(operator.get("numRowsDroppedByWatermark", 0) for operator in report["stateOperators"])
        return cls(
            *(query, report["batchId"], report["numInputRows"], report.get("processedRowsPerSecond") or 0.0),
            sum(row["unparsed"] for row in counted),
            sum(_lag(source) for source in report["sources"]),
            late,
        )

    def __str__(self) -> str:
        rate = f", {self.records_per_s:,.0f} records/s" if self.records else ""
        unparsed = f", {self.unparsed} of them could not be parsed" if self.unparsed else ""
        late = f", {self.late} too late" if self.late else ""
        lag = f", {self.lag:,} behind" if self.lag else ""
        return f"{self.query}: batch {self.number}: {self.records} records{unparsed}{late}{rate}{lag}"


def _lag(source: Mapping[str, Any]) -> int:
    """Return how many offsets of a source the query has not read; 0 for tables."""
    end, latest = _offsets(source["endOffset"]), _offsets(source["latestOffset"])
    return sum(
        max(0, offset - end.get(topic, {}).get(partition, 0))
        for topic, partitions in latest.items()
        for partition, offset in partitions.items()
    )


def _offsets(text: str | None) -> Mapping[str, Mapping[str, int]]:
    """Return topic -> partition -> offset from the JSON in Spark's report."""
    found = json.loads(text) if text and text.startswith("{") else {}
    return found if all(isinstance(partitions, dict) for partitions in found.values()) else {}


@dataclass(slots=True)
class Totals:
    """The totals of a query since its start."""

    batches: int = 0
    records: int = 0
    unparsed: int = 0
    late: int = 0
    restarts: int = 0
    lag: int = 0
    records_per_s: float = 0.0


_METRICS = {
    "batches": ("counter", "Batches that are done."),
    "records": ("counter", "Records read."),
    "unparsed": ("counter", "Records that could not be parsed."),
    "late": ("counter", "Rows that came after the watermark."),
    "restarts": ("counter", "Times that the query was started again."),
    "lag": ("gauge", "Offsets between the last batch's end and the topic's."),
    "records_per_s": ("gauge", "Records a second in the last batch."),
}


@dataclass(slots=True)
class Reporter:
    """Reports batches on a terminal or in a log, and maintains a metrics file in Prometheus' text format."""

    metrics: Path | None = None
    out: TextIO = field(default_factory=lambda: sys.stdout)
    totals: dict[str, Totals] = field(default_factory=dict)
    _is_metrics_trouble_reported: bool = field(default=False, init=False)

    def batch(self, batch: Batch) -> None:
        """Report a finished batch."""
        totals = self.totals.setdefault(batch.query, Totals())
        totals.batches += 1
        totals.records += batch.records
        totals.unparsed += batch.unparsed
        totals.late += batch.late
        totals.lag, totals.records_per_s = batch.lag, batch.records_per_s
        self.report(str(batch))
        self._write_metrics()

    def restarted(self, query: str) -> None:
        """Count a restart of a query."""
        self.totals.setdefault(query, Totals()).restarts += 1
        self._write_metrics()

    def report(self, line: str) -> None:
        """Print a line, and on a terminal the bar below it."""
        if not self.out.isatty():
            print(line, file=self.out, flush=True)
            return
        bar = bar_of(self.totals.values())
        print(f"\r\x1b[K{line}\n{bar}", end="", file=self.out, flush=True)

    def close(self) -> None:
        """End the bar, so that the terminal continues on a new line."""
        if self.out.isatty():
            print(file=self.out, flush=True)

    def _write_metrics(self) -> None:
        if self.metrics is None:
            return
        scratch = self.metrics.with_name(f".{self.metrics.name}")
        try:
            scratch.write_text("".join(f"{line}\n" for line in self._metric_lines()), encoding="utf-8")
            scratch.rename(self.metrics)
        except OSError as error:  # for example a full disk: no reason to stop streams that write elsewhere
            if not self._is_metrics_trouble_reported:
                self.report(f"{self.metrics}: {error.strerror}: metrics are not kept")
            self._is_metrics_trouble_reported = True
        else:
            self._is_metrics_trouble_reported = False

    def _metric_lines(self) -> Iterator[str]:
        for name, (kind, help) in _METRICS.items():
            metric = f"pybroker_pipeline_{name}" + ("_total" if kind == "counter" else "")
            yield f"# HELP {metric} {help}"
            yield f"# TYPE {metric} {kind}"
            for query, totals in self.totals.items():
                yield f'{metric}{{query="{query}"}} {getattr(totals, name):g}'


def bar_of(totals: Any) -> str:
    """Return a progress bar over all known records, with the records per second."""
    done = sum(one.records for one in totals)
    there = done + sum(one.lag for one in totals)
    share = done / there if there else 1.0
    filled = round(share * _BAR_WIDTH)
    rate = sum(one.records_per_s for one in totals)
    return f"[{'#' * filled}{'.' * (_BAR_WIDTH - filled)}] {share:4.0%}  {done:,} of {there:,}  {rate:,.0f} records/s"
