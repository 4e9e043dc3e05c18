"""Clients' metrics in OpenTelemetry's protocol (OTLP)."""

from __future__ import annotations

import struct
from contextlib import suppress

from broker.observability.telemetry.otlp import MOST_ATTRIBUTES, DataPoint, read_points
from broker.observability.telemetry.protobuf import Malformed
from tests.support.telemetry import CUMULATIVE, attribute, counter, field, gauge, point, report, varint

REPORT = report(
    gauge("a.rate", point(1.5), point(2.5, node_id=7, topic="t", share=0.5)),
    counter("b.total", point(3)),
    counter("c.total", point(4), temporality=CUMULATIVE),
    counter("d", point(5), is_monotonic=False),
    resource={"group_id": "g"},
)


def points(data: bytes) -> list[DataPoint]:
    return list(read_points(memoryview(data)))


def test_gauges_and_sums_are_read() -> None:
    """With the attributes of their resource and scope, and their own as text."""
    of_all = (("group_id", "g"),)

    assert points(REPORT) == [
        DataPoint("a.rate", of_all, 1.5, is_counter=False, is_delta=False),
        DataPoint(
            "a.rate",
            (*of_all, ("node_id", "7"), ("topic", "t"), ("share", "0.5")),
            2.5,
            is_counter=False,
            is_delta=False,
        ),
        DataPoint("b.total", of_all, 3, is_counter=True, is_delta=True),
        DataPoint("c.total", of_all, 4, is_counter=True, is_delta=False),
        DataPoint("d", of_all, 5, is_counter=False, is_delta=True),
    ]


def test_integers_are_read() -> None:
    """As signed numbers of eight bytes."""
    number = varint(6 << 3 | 1) + struct.pack("<q", -12)

    assert [each.value for each in points(report(gauge("g", number)))] == [-12]


def test_order_of_fields_does_not_matter() -> None:
    """Data points may precede a metric's name, and a resource may follow its metrics."""
    metric = field(7, field(3, 1) + field(2, 1) + field(1, point(1))) + field(1, "late")
    data = field(1, field(2, field(2, metric)) + field(1, field(1, attribute("client_rack", "r"))))

    assert points(data) == [DataPoint("late", (("client_rack", "r"),), 1, is_counter=True, is_delta=True)]


def test_non_numeric_fields_are_skipped() -> None:
    """Histograms, points without a value, attributes with lists, and unknown fields."""
    histogram = field(1, "h") + field(9, field(1, point(1)))
    listed = field(7, field(1, "many") + field(2, field(5, b"")))
    future = field(99, b"?") + field(98, 1)
    data = report(histogram, gauge("none", b""), future + gauge("one", point(1) + listed))

    assert points(data) == [DataPoint("one", (), 1, is_counter=False, is_delta=False)]
    assert points(b"") == points(report()) == []


def test_attributes_of_a_point_are_limited() -> None:
    """Those of its resource count for each point, so that a small report cannot take gigabytes of memory."""
    many = {f"n{number}": "" for number in range(10 * MOST_ATTRIBUTES)}

    of_all = points(report(gauge("g", point(1), point(2)), resource=many))
    of_one = points(report(gauge("g", point(1, **many), point(2)), resource={"r": ""}))

    assert [len(each.attributes) for each in of_all] == [MOST_ATTRIBUTES, MOST_ATTRIBUTES]
    assert [len(each.attributes) for each in of_one] == [MOST_ATTRIBUTES, 1]


def test_truncated_report_is_malformed_or_shorter() -> None:
    """At every byte. Nothing else is raised."""
    whole = points(REPORT)
    for size in range(1, len(REPORT)):
        with suppress(Malformed):
            assert len(points(REPORT[:size])) < len(whole)


def test_report_with_a_flipped_bit_is_read_or_malformed() -> None:
    """At every bit. Nothing else is raised."""
    for index in range(len(REPORT)):
        for bit in range(8):
            data = bytearray(REPORT)
            data[index] ^= 1 << bit
            with suppress(Malformed):
                points(bytes(data))
