"""Jobs run one at a time for each key, and again after a backoff."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.tiering.jobs import Jobs
from broker.tiering.steps import Steps, run, wait
from config import load
from remote.errors import Unreachable
from runtime.deferred import Deferred
from runtime.timers import Timers
from tests.support.fake_loop import FakeLoop


class Work:
    """A job that waits for `gate`, and fails as often as `failures` says."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        config = load(overrides={"remote.log.manager.task.retry.jitter": "0"})
        self.jobs = Jobs(config, Timers(self.loop, self.loop.clock), "done", monotonic=self.seconds)
        self.begun: list[int] = []
        self.gate: Deferred[None] | None = None
        self.failures = 0
        self.error: Exception = Unreachable("key", "no answer")

    def seconds(self) -> float:
        return self.loop.clock.monotonic_ms() / 1000

    def steps(self) -> Steps[None]:
        self.begun.append(self.loop.clock.monotonic_ms())
        if self.gate is not None:
            yield from wait(self.gate)
        if self.failures:
            self.failures -= 1
            raise self.error

    def begin(self, steps: Callable[[], Steps[None]] | None = None) -> None:
        self.jobs.begin("t-0", steps or self.steps)


def test_one_at_a_time() -> None:
    work = Work()
    gate = work.gate = Deferred()
    work.begin()
    work.begin()
    work.begin()
    assert len(work.begun) == work.jobs.running == 1
    work.gate = None
    gate.resolve(None)
    work.loop.advance(1)
    assert len(work.begun) == 2
    work.loop.advance(100_000)
    assert len(work.begun) == 2
    assert not work.jobs.running


def test_backoff_doubles_up_to_the_longest(caplog: pytest.LogCaptureFixture) -> None:
    work = Work()
    work.failures = 9
    work.begin()
    assert work.jobs.failures("t-0") == 1
    work.begin()  # a round does not end the backoff
    work.loop.advance(200_000)
    waits = [later - earlier for earlier, later in zip(work.begun, work.begun[1:], strict=False)]
    assert waits == [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]
    assert work.jobs.failures("t-0") == 0
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0] == "t-0 cannot be done, and is tried again in 500 ms (failure 1): key: no answer"
    assert len(lines) == 2, "one line a minute"
    assert "more like this were not logged" in lines[1]


def test_later_steps_replace_those_that_failed() -> None:
    """The topic was deleted meanwhile, for example."""
    work = Work()
    work.failures = 1
    work.begin()
    other: list[str] = []

    def steps() -> Steps[None]:
        other.append("run")
        yield from ()

    work.begin(steps)
    work.loop.advance(1000)
    assert other == ["run"]
    assert len(work.begun) == 1


def test_fault_of_the_program_has_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    work = Work()
    work.failures, work.error = 1, ZeroDivisionError("oops")
    work.begin()
    assert caplog.records[0].exc_info
    work.loop.advance(1000)
    assert len(work.begun) == 2


def test_nothing_begins_once_closed() -> None:
    work = Work()
    work.failures = 1
    work.begin()
    work.jobs.close()
    work.begin()
    work.loop.advance(100_000)
    assert len(work.begun) == 1


def test_steps_get_values_and_errors() -> None:
    failed: Deferred[int] = Deferred()
    failed.fail(KeyError("k"))
    later: Deferred[int] = Deferred()

    def steps() -> Steps[list[object]]:
        found: list[object] = [(yield from wait(Deferred.resolved(1)))]
        try:
            yield from wait(failed)
        except KeyError as error:
            found.append(error.args[0])
        found.append((yield from wait(later)))
        return found

    ended = run(steps())
    assert not ended.done
    later.resolve(3)
    assert ended.result() == [1, "k", 3]
