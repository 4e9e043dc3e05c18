"""Consume a number of records and measure the time."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

from confluent_kafka import KafkaException

from pybroker.cli.client.errors import CommandError
from pybroker.cli.client.session import Session, failed

_MB = 1 << 20
_BATCH = 5_000
HEADINGS = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)


class Consumed:
    """The result of a run. Times are seconds since 1970."""

    def __init__(self) -> None:
        self.began_s = time.time()
        self.first_s: float | None = None
        self.ended_s = self.began_s
        self.records = 0
        self.bytes = 0

    @property
    def _whole_s(self) -> float:
        return max(self.ended_s - self.began_s, 1e-3)

    @property
    def _joining_s(self) -> float:
        return (self.first_s or self.ended_s) - self.began_s

    @property
    def _fetching_s(self) -> float:
        return max(self.ended_s - self.began_s - self._joining_s, 1e-3)

    def line(self) -> str:
        """Return the result in the format of kafka-consumer-perf-test."""
        megabytes = self.bytes / _MB
        return (
            f"{_moment(self.began_s)}, {_moment(self.ended_s)}, {megabytes:.4f}, {megabytes / self._whole_s:.4f}, "
            f"{self.records}, {self.records / self._whole_s:.4f}, {self._joining_s * 1000:.0f}, "
            f"{self._fetching_s * 1000:.0f}, {megabytes / self._fetching_s:.4f}, {self.records / self._fetching_s:.4f}"
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


def consume(
    session: Session, topic: str, group: str, records: int, idle_s: float, *, latest: bool, show: Callable[[int], None]
) -> Consumed:
    """Read `records` records as a member of a group. Raises CommandError when none arrives for `idle_s` seconds."""
    consumer = session.consumer(
        {
            "group.id": group,
            "auto.offset.reset": "latest" if latest else "earliest",
            "enable.auto.commit": False,
            "fetch.max.bytes": 67_108_864,
            "queued.min.messages": 500_000,
        }
    )
    run = Consumed()
    last_record_s = time.monotonic()
    try:
        consumer.subscribe([topic])
        while run.records < records:
            messages = consumer.consume(min(records - run.records, _BATCH), 0.1)
            for message in messages:
                error = message.error()
                if error is not None:
                    raise failed(KafkaException(error), topic)
                run.bytes += len(message.value() or b"") + len(message.key() or b"")
            if messages:
                run.first_s = run.first_s or time.time()
                run.records += len(messages)
                last_record_s = time.monotonic()
                show(run.records)
            elif time.monotonic() - last_record_s > idle_s:
                raise CommandError(f"{topic}: {run.records} of {records} records arrived, then none for {idle_s:g} s")
            session.admin.poll(0)
            session.check()
        run.ended_s = time.time()
    finally:
        consumer.close()
    return run


def _moment(seconds: float) -> str:
    text = datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S:%f")
    return text[:-3]
