"""Jobs that run again and again: one of a kind at a time for each partition, with a backoff after failures."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from broker.tiering.copier import COPY_ERRORS
from broker.tiering.steps import Steps, run
from runtime.log_limit import LimitedLog

if TYPE_CHECKING:
    from config import BrokerConfig
    from runtime.deferred import Deferred
    from runtime.timers import Timers

log = logging.getLogger(__name__)


class _State(msgspec.Struct):
    """A job that runs, or that has failed; others are not kept."""

    steps: Callable[[], Steps[None]]
    is_running: bool = False
    #: Whether it was begun again while it ran.
    is_due: bool = False
    failures: int = 0
    #: The last error, and when the next try is due on the monotonic clock (ms).
    error: Exception | None = None
    next_try_ms: int = 0


class Failure(NamedTuple):
    """The failures of a job in a row, the last error, and in how many ms the job is tried again."""

    failures: int
    error: Exception
    delay_ms: int


class Jobs:
    """The jobs of one kind, by a key.

    Args:
        what: the work, for log lines: "copied to remote storage".
    """

    def __init__(
        self,
        config: BrokerConfig,
        timers: Timers,
        what: str,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._timers = timers
        self._what = what
        self._backoff_ms = config.get_int("remote.log.manager.task.retry.backoff.ms")
        self._longest_ms = config.get_int("remote.log.manager.task.retry.backoff.max.ms")
        self._jitter = config.get_float("remote.log.manager.task.retry.jitter")
        self._states: dict[Hashable, _State] = {}
        self._warnings = LimitedLog(log, 1, 60, monotonic)
        self._monotonic = monotonic
        self._is_closed = False

    @property
    def running(self) -> int:
        """The number of jobs that run."""
        return sum(each.is_running for each in self._states.values())

    @property
    def failing(self) -> int:
        """The number of jobs that have failed, and wait for their next try."""
        return sum(bool(each.failures) for each in self._states.values())

    def failures(self, key: Hashable) -> int:
        """Return how often the job has failed since it last succeeded."""
        state = self._states.get(key)
        return 0 if state is None else state.failures

    def failure(self, key: Hashable) -> Failure | None:
        """Return why the job has failed since it last succeeded; None if it has not."""
        state = self._states.get(key)
        if state is None or state.error is None:
            return None
        delay_ms = max(0, int(state.next_try_ms - self._monotonic() * 1000))
        return Failure(state.failures, state.error, delay_ms)

    def close(self) -> None:
        """Begin no more jobs."""
        self._is_closed = True

    def begin(self, key: Hashable, steps: Callable[[], Steps[None]]) -> None:
        """Run the steps. If the job runs already, they run after it; if it has failed, they are its next try."""
        if self._is_closed:
            return
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = _State(steps)
            self._run(key, state)
        else:
            state.steps, state.is_due = steps, True

    def _run(self, key: Hashable, state: _State) -> None:
        if not self._is_closed:
            state.is_running, state.is_due = True, False
            run(state.steps()).add_done_callback(lambda done: self._has_ended(key, state, done))

    def _has_ended(self, key: Hashable, state: _State, done: Deferred[None]) -> None:
        state.is_running = False
        if self._is_closed:
            return
        delay_ms = 0
        try:
            done.result()
        except Exception as error:
            state.failures += 1
            delay_ms = self._delay_ms(state.failures)
            state.error, state.next_try_ms = error, int(self._monotonic() * 1000) + delay_ms
            self._report(key, state.failures, delay_ms, error)
        else:
            state.failures, state.error = 0, None
            if not state.is_due:
                del self._states[key]
                return
        self._timers.call_later(delay_ms, lambda: self._run(key, state))

    def _delay_ms(self, failures: int) -> int:
        """Return Kafka's exponential backoff: doubled with each failure, up to the longest, and varied."""
        delay_ms = min(self._backoff_ms << min(failures - 1, 30), self._longest_ms)
        return int(delay_ms * random.uniform(1 - self._jitter, 1 + self._jitter))

    def _report(self, key: Hashable, failures: int, delay_ms: int, error: Exception) -> None:
        if not isinstance(error, COPY_ERRORS):
            log.error("%s cannot be %s, and is tried again in %d ms", key, self._what, delay_ms, exc_info=error)
            return
        self._warnings.warning(
            "%s cannot be %s, and is tried again in %d ms (failure %d): %s", key, self._what, delay_ms, failures, error
        )
