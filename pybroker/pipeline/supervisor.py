"""Keep queries running: report their batches, restart failed ones, and stop all at the end."""

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
#: The most doublings of a wait: it is at its maximum by then, and more would overflow a float.
_MOST_DOUBLINGS = 64


class RunningQuery(Protocol):
    """The part of Spark's StreamingQuery that the supervisor uses."""

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
    """A query, how to start it, and its state."""

    name: str
    start: Callable[[], RunningQuery]
    query: RunningQuery | None = None
    last_batch: int = -1
    attempts: int = 0
    due: float = 0.0  # when to start it, on the clock of the supervisor

    def new_batches(self) -> list[Batch]:
        """Return the batches that finished since the last call."""
        assert self.query is not None
        latest = self.query.lastProgress
        if latest is None or latest["batchId"] <= self.last_batch:
            return []
        # Spark keeps a hundred reports, and reading each costs a call: so only when one was missed
        reports = [latest] if latest["batchId"] == self.last_batch + 1 else self.query.recentProgress
        # An idle query reports the number of its next batch; only a finished batch has written
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
        """Run the queries; return why one failed, or None when all ended or were stopped.

        It calls `before_stop` before it stops the remaining queries, maybe during a batch.
        """
        try:
            while not self._stopping:
                ended = self._ended(watched)  # read before the failures, which exist once a query has ended
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
        """Start a query that is due, and report its batches; return why it failed if it will not be restarted."""
        if one.query is None:
            if self.clock() < one.due:
                return None
            try:
                one.query = one.start()
            except (PySparkException, Py4JError) as error:  # Spark checks a sink before it creates the query
                return self._failed(one, error)
        self._report(one)
        failure = one.query.exception()
        return None if failure is None else self._failed(one, failure)

    def _failed(self, one: Watched, failure: Exception) -> str | None:
        """Schedule the restart of a failed query; return why it failed if it will not be restarted."""
        reason = _reason(failure)
        if self.restart is None or one.attempts >= self.restart.attempts:
            return reason
        wait = self._wait(self.restart, one.attempts)
        one.attempts += 1
        one.query, one.due = None, self.clock() + wait
        self.reporter.restarted(one.name)
        self.reporter.report(f"{one.name}: failed, restarts in {wait:g} s: {reason}")
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
    """Return the first line of an error; Spark's texts continue with plans and traces."""
    return java_error(failure) if isinstance(failure, Py4JError) else str(failure).strip().partition("\n")[0]
