"""The description of a metric, and its name.

Metrics that Apache Kafka has, too, have the names that Prometheus' JMX exporter gives its MBeans with the rules of its
examples (kafka-2_0_0.yml). So dashboards made for those work with this broker.
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
    """One row of the table. A sample without values for `labels` is the sum over them. `mbean`: Kafka's.

    Only members of a cluster have the metrics that are `of_members`, only its controller those `of_controllers`. Only
    brokers with tiered storage have those `of_tiers`.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    doc: str
    mbean: str = ""
    of_members: bool = False
    of_controllers: bool = False
    of_tiers: bool = False


class Timings(msgspec.Struct, frozen=True):
    """A sample of a SUMMARY, in the metric's unit. Quantiles are of the latest measurements."""

    count: int
    total: float
    quantiles: Sequence[tuple[str, float]] = ()


class Buckets(msgspec.Struct, frozen=True):
    """A sample of a HISTOGRAM: counts up to each bound, the last of which is infinite; and the sum of the values."""

    counts: Sequence[tuple[str, int]]
    total: float

    @property
    def count(self) -> int:
        """The total count."""
        return self.counts[-1][1]


Value: TypeAlias = "float | Timings | Buckets"
#: A metric, the values of its labels, and its value.
Sample: TypeAlias = tuple[Metric, tuple[str, ...], Value]


#: The quantiles of Kafka's histograms, as the JMX exporter's rules write them.
_QUANTILES = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")


def quantiles(latest: Iterable[float]) -> Sequence[tuple[str, float]]:
    """Return the quantiles of the numbers; none without numbers."""
    found = sorted(latest)
    return [(each, found[int(float(each) * (len(found) - 1))]) for each in _QUANTILES] if found else []


def kafka(room: str, type_: str, name: str, labels: tuple[str, ...], doc: str, kind: Kind = Kind.GAUGE) -> Metric:
    """Return the metric of `kafka.<room>:type=<type>,name=<name>`, with its other properties as labels.

    Meters are counters: Prometheus computes the rate. Their names end in PerSec, with few exceptions.
    """
    mbean = f"kafka.{room}:type={type_},name={name}" + "".join(f",{label}=*" for label in labels)
    if name.endswith("PerSec") or kind is Kind.COUNTER:
        name, kind = name.removesuffix("PerSec") + "_total", Kind.COUNTER
    exported = f"kafka_{room}_{type_}_{name}".replace(".", "_").replace("-", "_").lower()
    return Metric(exported, kind, labels, doc, mbean)


def attribute(type_: str, name: str, labels: tuple[str, ...], doc: str) -> Metric:
    """Return the metric of an attribute of `kafka.server:type=<type>`, the form of newer parts of Kafka."""
    mbean = f"kafka.server:type={type_}" + "".join(f",{label}=*" for label in labels)
    exported = f"kafka_server_{type_}_{name}".replace("-", "_").lower()
    return Metric(exported, Kind.GAUGE, labels, doc, f"{mbean} ({name})")


def of_members(metric: Metric) -> Metric:
    """Return a metric that only members of a cluster have (process.roles=broker)."""
    return metric._replace(of_members=True)


def of_controllers(metric: Metric) -> Metric:
    """Return a metric that only the controller of other brokers has, alone or in the process of a broker."""
    return metric._replace(of_controllers=True)


def of_tiers(metric: Metric) -> Metric:
    """Return a metric that only a broker with tiered storage has."""
    return metric._replace(of_tiers=True)


def own(name: str, labels: tuple[str, ...], doc: str, kind: Kind = Kind.GAUGE) -> Metric:
    """Return a metric that Apache Kafka does not have; if its name ends in _total, it is a counter."""
    return Metric(f"pybroker_{name}", Kind.COUNTER if name.endswith("_total") else kind, labels, doc)
