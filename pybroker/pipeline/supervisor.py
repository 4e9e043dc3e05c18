"""Keeps queries running: tells of their batches, starts those again that failed, and stops all when it is time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from pybroker.pipeline.progress import Batch, Reporter
from pybroker.pipeline.session import java_error
from pybroker.pipeline.spec import Restart
from pybroker.pipeline.spec.interval import seconds

_POLL_S = 0.25
#: Of a wait: by then it is as long as any may be, and more are no number with a point.
_MOST_DOUBLINGS = 64


class RunningQuery(Protocol):
    """What it needs of Spark's StreamingQuery."""

    @property
    def isActive(self) -> bool: ...  # noqa: N802

    @property
    def lastProgress(self) -> Any: ...  # noqa: N802

    @property
    def recentProgress(self) -> Sequence[Any]: ...  # noqa: N802

    def exception(self) -> Exception | None: ...

    def stop(self) -> None: ...


@dataclass(slots=True)
class Watched:
    """A query, how to start it, and what became of it."""

    name: str
    start: Callable[[], RunningQuery]
    query: RunningQuery | None = None
    last_batch: int = -1
    attempts: int = 0
    due: float = 0.0  # when it is started, on the supervisor's clock

    def new_batches(self) -> list[Batch]:
        """Return what is done since the last call."""
        assert self.query is not None
        latest = self.query.lastProgress
        if latest is None or latest["batchId"] <= self.last_batch:
            return []
        # Of all that Spark keeps, which are a hundred, each is asked for and read: so only where one has been missed
        reports = [latest] if latest["batchId"] == self.last_batch + 1 else self.query.recentProgress
        # An idle query reports under the number of its next batch; only one that was done has written
        done = [report for report in reports if "addBatch" in report["durationMs"]]
        new = [batch for report in done if (batch := Batch.of(self.name, report)).number > self.last_batch]
        if new:
            self.last_batch, self.attempts = new[-1].number, 0
        return new


@dataclass(slots=True)
class Supervisor:
    """Runs queries until all have ended, one has failed for good, or `stop` is called (by a signal's handler)."""

    reporter: Reporter
    restart: Restart | None = None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _stopping: bool = field(default=False, init=False)

    def stop(self) -> None:
        """Make `run` return soon."""
        self._stopping = True

    def run(self, watched: Sequence[Watched], before_stop: Callable[[], None] = lambda: None) -> str | None:
        """Run the queries; return why one failed, None when all ended or were told to.

        `before_stop` is called before those that are left are stopped, maybe amid a batch.
        """
        try:
            while not self._stopping:
                ended = self._ended(watched)  # asked before the failures, which are there once a query has ended
                for one in watched:
                    if (failure := self._step(one)) is not None:
                        return f"{one.name}: {failure}"
                if ended and all(one.query is not None for one in watched):
                    return None
                self.sleep(_POLL_S)
            return None
        finally:
            before_stop()
            for one in watched:
                if one.query is not None:
                    one.query.stop()
            for one in watched:
                self._report(one)

    @staticmethod
    def _ended(watched: Sequence[Watched]) -> bool:
        return all(one.query is not None and not one.query.isActive for one in watched)

    def _step(self, one: Watched) -> str | None:
        """Start a query that is due, tell of its batches; return why it failed when it is not to be started again."""
        if one.query is None:
            if self.clock() < one.due:
                return None
            try:
                one.query = one.start()
            except (PySparkException, Py4JError) as error:  # a sink is looked at before a query is made of it
                return self._failed(one, error)
        self._report(one)
        failure = one.query.exception()
        return None if failure is None else self._failed(one, failure)

    def _failed(self, one: Watched, failure: Exception) -> str | None:
        """See to it that a query which failed is started again; return why it failed when it is not to be."""
        reason = _reason(failure)
        if self.restart is None or one.attempts >= self.restart.attempts:
            return reason
        wait = self._wait(self.restart, one.attempts)
        one.attempts += 1
        one.query, one.due = None, self.clock() + wait
        self.reporter.restarted(one.name)
        self.reporter.tell(f"{one.name}: failed, starts again in {wait:g} s: {reason}")
        return None

    def _report(self, one: Watched) -> None:
        if one.query is not None:
            for batch in one.new_batches():
                self.reporter.batch(batch)

    @staticmethod
    def _wait(restart: Restart, attempts: int) -> float:
        longest = seconds(restart.back_off_max, "restart.back_off_max")
        wait: float = seconds(restart.back_off, "restart.back_off") * 2 ** min(attempts, _MOST_DOUBLINGS)
        return min(longest, wait)


def _reason(failure: Exception) -> str:
    """Return what went wrong in a line: what Spark tells goes on with plans and traces."""
    return java_error(failure) if isinstance(failure, Py4JError) else str(failure).strip().partition("\n")[0]
