"""The output of Apache Kafka's performance tools."""

from __future__ import annotations

from bench.comparison.clients import consumed, produced

PRODUCER = """\
250011 records sent, 50002.2 records/sec (4.77 MB/sec), 120.5 ms avg latency, 600.0 ms max latency.
500000 records sent, 100000.0 records/sec (9.54 MB/sec), 101.11 ms avg latency, 612.00 ms max latency, \
90 ms 50th, 300 ms 95th, 500 ms 99th, 600 ms 99.9th.
"""
CONSUMER = """\
start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, \
fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec
2026-01-02 10:00:00:000, 2026-01-02 10:00:05:000, 9.5367, 1.9, 100000, 20000.0, 3000, 2000, 4.7, 50000.0
"""


def test_a_producers_last_line_counts() -> None:
    """The lines above it cover a few seconds each."""
    assert produced(PRODUCER) == (500_000, 5.0)


def test_a_consumers_time_is_its_fetch_time() -> None:
    """Without the time of its group's rebalance."""
    assert consumed(f"WARNING: something, else\n{CONSUMER}") == (100_000, 2.0)
