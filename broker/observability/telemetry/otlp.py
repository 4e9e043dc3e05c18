"""Metrics as OpenTelemetry's protocol has them (MetricsData, version 1), as clients push them: numbers and sums.

    MetricsData   1 ResourceMetrics...
    ResourceMetrics   1 Resource (1 attributes...)   2 ScopeMetrics... (2 Metric...)
    Metric   1 name   5 Gauge (1 points...)   7 Sum (1 points..., 2 temporality, 3 is monotonic)
    NumberDataPoint   4 double   6 sfixed64   7 attributes...
    KeyValue   1 key   2 AnyValue (1 string, 2 bool, 3 int64, 4 double)

Histograms and summaries, which no client of Kafka pushes, are passed over, and so are attributes that are lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from broker.observability.telemetry.protobuf import (
    FIXED64,
    LENGTH,
    VARINT,
    double,
    fields,
    int64,
    messages,
    number_of,
    signed,
    tag,
    text,
)

_NAME, _GAUGE, _SUM = tag(1, LENGTH), tag(5, LENGTH), tag(7, LENGTH)
_AS_DOUBLE, _AS_INT, _ATTRIBUTE = tag(4, FIXED64), tag(6, FIXED64), tag(7, LENGTH)
_KEY, _VALUE = tag(1, LENGTH), tag(2, LENGTH)
_STRING, _BOOL, _INT, _DOUBLE = tag(1, LENGTH), tag(2, VARINT), tag(3, VARINT), tag(4, FIXED64)
_DELTA = 1
#: Attributes that a point has, with those of what it is of: more than anybody shows. Each of thousands of points has a
#: row of them, and a report of 1 MiB has room for 170,000 that all would have.
MOST_ATTRIBUTES = 32

Attributes = tuple[tuple[str, str], ...]


class DataPoint(NamedTuple):
    """A client's number. `is_counter`: a sum that only grows; `is_delta`: the growth since the last report."""

    name: str
    attributes: Attributes
    value: float
    is_counter: bool
    is_delta: bool


def read_points(data: memoryview) -> Iterator[DataPoint]:
    """Yield all numbers; a resource's attributes precede the point's own. Raises Malformed, perhaps after some."""
    for resource_metrics in messages(data, 1):
        attributes = (
            attribute
            for resource in messages(resource_metrics, 1)
            for each in messages(resource, 1)
            for attribute in _attribute(each)
        )
        of_resource = tuple(islice(attributes, MOST_ATTRIBUTES))
        for scope_metrics in messages(resource_metrics, 2):
            for metric in messages(scope_metrics, 2):
                yield from _points_of(metric, of_resource)


def _points_of(metric: memoryview, of_resource: Attributes) -> Iterator[DataPoint]:
    name, gauge, total = "", None, None
    for found, value in fields(metric):
        assert isinstance(value, memoryview) or found & 7 == VARINT
        if found == _NAME:
            name = text(value)  # type: ignore[arg-type]
        elif found == _GAUGE:
            gauge, total = value, None
        elif found == _SUM:
            gauge, total = None, value
    if isinstance(gauge, memoryview):
        yield from _points(gauge, name, of_resource, is_counter=False, is_delta=False)
    elif isinstance(total, memoryview):
        is_delta = number_of(total, 2) == _DELTA
        yield from _points(total, name, of_resource, is_counter=number_of(total, 3) != 0, is_delta=is_delta)


def _points(
    data: memoryview, name: str, of_resource: Attributes, *, is_counter: bool, is_delta: bool
) -> Iterator[DataPoint]:
    for point in messages(data, 1):
        number: float | None = None
        attributes = list(of_resource)
        for found, value in fields(point):
            if not isinstance(value, memoryview):
                continue
            if found == _AS_DOUBLE:
                number = double(value)
            elif found == _AS_INT:
                number = float(int64(value))
            elif found == _ATTRIBUTE and len(attributes) < MOST_ATTRIBUTES:
                attributes += _attribute(value)
        if number is not None:
            yield DataPoint(name, tuple(attributes), number, is_counter, is_delta)


def _attribute(key_value: memoryview) -> Attributes:
    """Return one attribute; empty if its value is not a single one."""
    key, found_text = "", None
    for found, value in fields(key_value):
        if not isinstance(value, memoryview):
            continue
        if found == _KEY:
            key = text(value)
        elif found == _VALUE:
            found_text = _any_value(value)
    return () if found_text is None else ((key, found_text),)


def _any_value(data: memoryview) -> str | None:
    """Return a value as text."""
    text_value = None
    for found, value in fields(data):
        if isinstance(value, memoryview):
            if found == _STRING:
                text_value = text(value)
            elif found == _DOUBLE:
                text_value = repr(double(value))
        elif found == _BOOL:
            text_value = "true" if value else "false"
        elif found == _INT:
            text_value = str(signed(value))
    return text_value
