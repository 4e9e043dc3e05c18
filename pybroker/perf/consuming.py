"""Consume a number of records and measure the time."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass

from confluent_kafka import KafkaException

from pybroker.cli.client.session import Session, failed
from pybroker.perf.date_formats import DATE_FORMAT, format_time

_MB = 1 << 20
_BATCH = 5_000
_FIGURES = (
    "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)
HEADINGS = f"start.time, end.time, {_FIGURES}"
WINDOW_HEADINGS = f"time, threadId, {_FIGURES}"
"""Headings of lines of windows: `Consumed.window_line`."""


class Consumed:
    """The result of a run. Times are seconds since 1970. `is_whole`: all records arrived."""

    def __init__(self, began_s: float | None = None) -> None:
        self.began_s = time.time() if began_s is None else began_s
        self.first_s: float | None = None
        self.ended_s = self.began_s
        self.records = 0
        self.bytes = 0
        self.is_whole = True

    @property
    def _whole_s(self) -> float:
        return max(self.ended_s - self.began_s, 1e-3)

    @property
    def _joining_s(self) -> float:
        return (self.first_s or self.ended_s) - self.began_s

    @property
    def _fetching_s(self) -> float:
        return max(self.ended_s - self.began_s - self._joining_s, 1e-3)

    def line(self, date_format: str = DATE_FORMAT) -> str:
        """Return the result in the format of kafka-consumer-perf-test. `date_format` is one of `format_time`."""
        megabytes = self.bytes / _MB
        return (
            f"{format_time(self.began_s, date_format)}, {format_time(self.ended_s, date_format)}, "
            f"{megabytes:.4f}, {megabytes / self._whole_s:.4f}, "
            f"{self.records}, {self.records / self._whole_s:.4f}, {self._joining_s * 1000:.0f}, "
            f"{self._fetching_s * 1000:.0f}, {megabytes / self._fetching_s:.4f}, {self.records / self._fetching_s:.4f}"
        )

    def since(self, before: Consumed) -> Consumed:
        """Return the window from the end of `before`, an earlier copy of this result, until the end of this one."""
        window = copy(self)
        window.began_s = before.ended_s
        window.first_s = self.first_s if before.first_s is None else before.ended_s
        window.records -= before.records
        window.bytes -= before.bytes
        return window

    def window_line(self, window: Consumed, date_format: str = DATE_FORMAT) -> str:
        """Return a line of --show-detailed-stats: totals until now, and the rates of the window."""
        megabytes = window.bytes / _MB
        return (
            f"{format_time(self.ended_s, date_format)}, 0, {self.bytes / _MB:.4f}, {megabytes / window._whole_s:.4f}, "
            f"{self.records}, {window.records / window._whole_s:.4f}, {window._joining_s * 1000:.0f}, "
            f"{window._fetching_s * 1000:.0f}, {megabytes / window._fetching_s:.4f}, "
            f"{window.records / window._fetching_s:.4f}"
        )

    def row(self) -> dict[str, object]:
        """Return the result for --json."""
        return {
            "records": self.records,
            "bytes": self.bytes,
            "seconds": round(self._whole_s, 3),
            "records_per_s": round(self.records / self._whole_s, 1),
            "mb_per_s": round(self.bytes / _MB / self._whole_s, 3),
            "joining_ms": round(self._joining_s * 1000),
        }


@dataclass(frozen=True, slots=True)
class Wanted:
    """The records to read. `idle_s`: the wait for a record."""

    topics: list[str]
    group: str
    records: int
    idle_s: float
    is_latest: bool


def consume(
    session: Session,
    wanted: Wanted,
    report: Callable[[Consumed], None],
    window_s: float,
    *,
    show: Callable[[int], None],
) -> Consumed:
    """Read records as a member of a group, until all arrived or none for some time.

    `report` gets the result so far, every `window_s` seconds while records arrive. Raises CommandError.
    """
    consumer = session.consumer(
        {
            "group.id": wanted.group,
            "auto.offset.reset": "latest" if wanted.is_latest else "earliest",
            "enable.auto.commit": False,
            "fetch.max.bytes": 67_108_864,
            "queued.min.messages": 500_000,
        }
    )
    run = Consumed()
    last_record_s = last_report_s = time.monotonic()
    try:
        consumer.subscribe(wanted.topics)
        while run.records < wanted.records:
            messages = consumer.consume(min(wanted.records - run.records, _BATCH), 0.1)
            for message in messages:
                error = message.error()
                if error is not None:
                    raise failed(KafkaException(error), message.topic() or "")
                run.bytes += len(message.value() or b"") + len(message.key() or b"")
            now_s = time.monotonic()
            if messages:
                run.first_s = run.first_s or time.time()
                run.records += len(messages)
                last_record_s = now_s
                show(run.records)
                if now_s - last_report_s >= window_s:
                    last_report_s = now_s
                    run.ended_s = time.time()
                    report(run)
            elif now_s - last_record_s > wanted.idle_s:
                run.is_whole = False
                break
            session.admin.poll(0)
            session.check()
        run.ended_s = time.time()
    finally:
        consumer.close()
    return run
