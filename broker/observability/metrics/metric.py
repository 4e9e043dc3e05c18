"""What a metric is, and what it is called.

Metrics that Apache Kafka has, too, have the names under which its MBeans come out of Prometheus' JMX exporter with the
rules that stand in its examples (kafka-2_0_0.yml), so that dashboards made for those show this broker as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple, TypeAlias

import msgspec


class Kind(Enum):
    """Types of Prometheus."""

    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    """One row of the table. A sample may leave all `labels` out: then it is the sum over them. `mbean`: Kafka's."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    doc: str
    mbean: str = ""


class Timings(msgspec.Struct, frozen=True):
    """A sample of a SUMMARY. Quantiles are of the latest ones; all in the metric's unit."""

    count: int
    total: float
    quantiles: Sequence[tuple[str, float]] = ()


class Buckets(msgspec.Struct, frozen=True):
    """A sample of a HISTOGRAM: how many were up to each bound, the last of which is infinite; and their sum."""

    counts: Sequence[tuple[str, int]]
    total: float

    @property
    def count(self) -> int:
        """How many there were in all."""
        return self.counts[-1][1]


Value: TypeAlias = "float | Timings | Buckets"
#: A metric, the values of its labels, and its own.
Sample: TypeAlias = tuple[Metric, tuple[str, ...], Value]


#: Those of Kafka's histograms, as the JMX exporter's rules write them.
_QUANTILES = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")


def quantiles(latest: Iterable[float]) -> Sequence[tuple[str, float]]:
    """Of the numbers given, if any."""
    found = sorted(latest)
    return [(each, found[int(float(each) * (len(found) - 1))]) for each in _QUANTILES] if found else []


def kafka(room: str, type_: str, name: str, labels: tuple[str, ...], doc: str, kind: Kind = Kind.GAUGE) -> Metric:
    """The metric of `kafka.<room>:type=<type>,name=<name>`, with its other properties as labels.

    Meters, whose names end in PerSec, are counters: the rate is Prometheus' to find.
    """
    mbean = f"kafka.{room}:type={type_},name={name}" + "".join(f",{label}=*" for label in labels)
    if name.endswith("PerSec"):
        name, kind = name.removesuffix("PerSec") + "_total", Kind.COUNTER
    exported = f"kafka_{room}_{type_}_{name}".replace(".", "_").replace("-", "_").lower()
    return Metric(exported, kind, labels, doc, mbean)


def attribute(type_: str, name: str, labels: tuple[str, ...], doc: str) -> Metric:
    """The metric of an attribute of `kafka.server:type=<type>`: what newer rooms of Kafka have for metrics."""
    mbean = f"kafka.server:type={type_}" + "".join(f",{label}=*" for label in labels)
    exported = f"kafka_server_{type_}_{name}".replace("-", "_")
    return Metric(exported, Kind.GAUGE, labels, doc, f"{mbean} ({name})")


def own(name: str, labels: tuple[str, ...], doc: str, kind: Kind = Kind.GAUGE) -> Metric:
    """A metric that no Apache Kafka has; one whose name ends in _total is a counter."""
    return Metric(f"pybroker_{name}", Kind.COUNTER if name.endswith("_total") else kind, labels, doc)
