"""Queries that end, fail, restart and stop."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from pybroker.pipeline.progress import Reporter
from pybroker.pipeline.spec import Restart
from pybroker.pipeline.supervisor import Supervisor, Watched


def report(batch: int, records: int = 1) -> dict[str, Any]:
    """Return Spark's report of a batch."""
    return {
        "batchId": batch,
        "numInputRows": records,
        "processedRowsPerSecond": 10.0,
        "durationMs": {"addBatch": 5},
        "observedMetrics": {"source:s": {"records": records, "unparsed": 0}},
        "stateOperators": [],
        "sources": [],
    }


@dataclass
class FakeQuery:
    """A query that ends or fails after this number of checks."""

    looks: int
    failure: Exception | None = None
    reports: list[dict[str, Any]] = field(default_factory=list)
    stopped: bool = False
    asked_for_all: int = 0

    @property
    def isActive(self) -> bool:  # noqa: N802
        self.looks -= 1
        return self.looks > 0

    @property
    def lastProgress(self) -> dict[str, Any] | None:  # noqa: N802
        return self.reports[-1] if self.reports else None

    @property
    def recentProgress(self) -> list[dict[str, Any]]:  # noqa: N802
        self.asked_for_all += 1
        return self.reports

    def exception(self) -> Exception | None:
        return self.failure if self.looks <= 0 else None

    def stop(self) -> None:
        self.stopped = True


class FakeTime:
    """A clock that sleep() advances."""

    def __init__(self) -> None:
        self.now = 0.0
        self.on_sleep: Callable[[], None] = lambda: None

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.on_sleep()


def supervisor(restart: Restart | None = None) -> tuple[Supervisor, FakeTime, io.StringIO]:
    time, out = FakeTime(), io.StringIO()
    return Supervisor(Reporter(out=out), restart, lambda: time.now, time.sleep), time, out


def queries(*attempts: FakeQuery) -> tuple[Watched, list[FakeQuery]]:
    """A query of several runs, and the runs that were started."""
    begun: list[FakeQuery] = []

    def start() -> FakeQuery:
        begun.append(attempts[len(begun)])
        return begun[-1]

    return Watched("q", start), begun


def test_ends_when_all_queries_have_ended() -> None:
    """Each batch is reported once, after it is done."""
    idle = report(1, records=0) | {"durationMs": {"triggerExecution": 1}}
    one, _ = queries(FakeQuery(3, reports=[report(0), idle, report(1)]))
    watcher, _, out = supervisor()

    assert watcher.run([one]) is None
    assert [line.split(",")[0] for line in out.getvalue().splitlines()] == [
        "q: batch 0: 1 records",
        "q: batch 1: 1 records",
    ]


def test_only_the_last_report_is_read_unless_some_were_missed() -> None:
    """Spark serializes all reports on each access, and a pipeline checks several times a second."""
    query = FakeQuery(1000)
    one, _ = queries(query)
    watcher, time, out = supervisor()
    idle = [report(number, records=0) | {"durationMs": {"triggerExecution": 1}} for number in (3, 7)]
    come = iter(
        [[report(0)], [report(1)], [], [], [report(2), idle[0]], [report(3)], [report(4), report(5), report(6)]]
    )

    def next_reports() -> None:
        query.reports += next(come, [idle[1]])
        if time.now > 10:
            watcher.stop()

    time.on_sleep = next_reports
    assert watcher.run([one]) is None
    assert [line.split(":")[1] for line in out.getvalue().splitlines()] == [f" batch {number}" for number in range(7)]
    assert query.asked_for_all <= 3


def test_failure_stops_all_queries() -> None:
    """The first line of the reason is returned."""
    bad, _ = queries(FakeQuery(1, RuntimeError("disk full\n at com.example")))
    good, begun = queries(FakeQuery(1000))
    watcher, _, _ = supervisor()

    assert watcher.run([good, bad]) == "q: disk full"
    assert begun[0].stopped


def test_failed_query_restarts_with_growing_delays() -> None:
    """1 s, 2 s, 4 s up to the longest; then the failure is final."""
    one, begun = queries(*(FakeQuery(1, RuntimeError("away")) for _ in range(9)))
    watcher, time, out = supervisor(Restart(attempts=4, back_off="1s", back_off_max="5s"))

    assert watcher.run([one]) == "q: away"
    assert len(begun) == 5
    assert [line for line in out.getvalue().splitlines() if "restarts in" in line] == [
        f"q: failed, restarts in {wait} s: away" for wait in (1, 2, 4, 5)
    ]
    assert 12 <= time.now < 14


def test_long_delays_do_not_end_the_restarts() -> None:
    """A query that fails for days is at the longest delay."""
    one, begun = queries(*(FakeQuery(1, RuntimeError("away")) for _ in range(1200)), FakeQuery(1))
    watcher, time, _ = supervisor(Restart(attempts=10_000, back_off="200ms", back_off_max="1s"))

    assert watcher.run([one]) is None
    assert len(begun) == 1201
    assert time.now > 1190


def test_failing_start_is_retried() -> None:
    """Spark checks a sink when a query starts. The message is one line without Java's trace."""
    raised = [PySparkException("no folder\nJVM stacktrace"), Py4JError("An error\n: java.io.IOException: gone\n\tat x")]
    good = FakeQuery(1)

    def start() -> FakeQuery:
        if raised:
            raise raised.pop(0)
        return good

    watcher, _, out = supervisor(Restart(attempts=2, back_off="1s"))
    assert watcher.run([Watched("q", start)]) is None
    assert good.stopped
    assert out.getvalue().splitlines() == [
        "q: failed, restarts in 1 s: no folder",
        "q: failed, restarts in 2 s: java.io.IOException: gone",
    ]

    raised.append(PySparkException("no folder"))
    watcher, _, _ = supervisor()
    assert watcher.run([Watched("q", start)]) == "q: no folder"


def test_successful_batch_resets_the_retries() -> None:
    """So a query may fail any number of times as long as it makes progress."""
    lives = [FakeQuery(1, RuntimeError("away"), [report(number)]) for number in range(5)]
    one, begun = queries(*lives, FakeQuery(1))
    watcher, _, _ = supervisor(Restart(attempts=1, back_off="1s"))

    assert watcher.run([one]) is None
    assert len(begun) == 6
    assert watcher.reporter.totals["q"].restarts == 5


def test_stop_ends_the_queries() -> None:
    """Without reporting a failure."""
    one, begun = queries(FakeQuery(1000))
    watcher, time, _ = supervisor()
    time.on_sleep = watcher.stop

    assert watcher.run([one]) is None
    assert begun[0].stopped
