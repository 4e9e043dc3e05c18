"""Figures of a performance test."""

from __future__ import annotations

import pytest

from pybroker.perf.latencies import Latencies
from pybroker.perf.producing import Produced, random_payloads


def test_percentiles() -> None:
    """Of 1000 records that take 0.1 to 100 ms."""
    found = Latencies()
    for number in range(1, 1001):
        found.add(number / 10 + 0.01)
    assert found.count == 1000
    assert found.average_ms == pytest.approx(50.06)
    assert found.max_ms == pytest.approx(100.01)
    assert found.percentiles_ms(0.5, 0.95, 0.99, 0.999) == [50.0, 95.0, 99.0, 99.9]


def test_no_records_give_no_figures() -> None:
    """There is no division by zero."""
    assert Latencies().percentiles_ms(0.5, 0.99) == [0.0, 0.0]
    assert Latencies().average_ms == 0


def test_memory_is_bounded() -> None:
    """Latencies above a minute count as a minute."""
    found = Latencies()
    found.add(1e9)
    assert found.percentiles_ms(1.0) == [60_000.0]
    assert found.max_ms == 1e9


def test_lines_are_those_of_kafkas_tool() -> None:
    """As kafka-producer-perf-test prints a window and the total."""
    run = Produced(10.0)
    for _ in range(4):
        run.add(1 << 20, 2.5)
    run.ended_s = 12.0
    window = "4 records sent, 2.0 records/sec (2.00 MB/sec), 2.5 ms avg latency, 2.5 ms max latency."
    assert run.line(whole=False) == window
    assert run.line(whole=True) == (
        "4 records sent, 2.000000 records/sec (2.00 MB/sec), 2.50 ms avg latency, 2.50 ms max latency, "
        "2 ms 50th, 2 ms 95th, 2 ms 99th, 2 ms 99.9th."
    )


def test_payloads_are_reproducible() -> None:
    """Capital letters of the requested size. Of large payloads there are few."""
    made = random_payloads(50)
    assert made == random_payloads(50)
    assert {len(each) for each in made} == {50}
    assert b"".join(made).isupper()
    assert len(random_payloads(1 << 22)) == 1
