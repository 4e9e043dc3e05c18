"""Repeated checks of files that other programs write."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from broker.external_readers.poller import Poller
from runtime.timers import Timers
from tests.support.fake_loop import FakeLoop


class Stage:
    """Checks whose result the test sets, in a thread that runs when the test triggers it."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.calls: list[Callable[[], None] | None] = []
        self.found: list[int | Exception] = []
        self.taken: list[int] = []
        timers = Timers(self.loop, self.loop.clock)
        self.poller = Poller("things", self.look, self.taken.append, 1_000, self.loop, timers, self.calls.append)  # type: ignore[arg-type]
        self.poller.start()

    def look(self) -> int:
        found = self.found.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def run(self, *found: int | Exception) -> None:
        """Run a number of checks, each as soon as it is due."""
        for each in found:
            self.found.append(each)
            call = self.calls.pop(0)
            assert call is not None
            call()
            self.loop.settle()
            self.loop.advance(1_000)


def test_failed_check_is_followed_by_others(caplog: pytest.LogCaptureFixture) -> None:
    """The last result stays, and the error is logged with its traceback."""
    stage = Stage()
    stage.run(1, ZeroDivisionError("by nothing"), 3)

    assert stage.taken == [1, 3]
    assert [record.getMessage() for record in caplog.records] == ["Checking things failed"]
    assert "by nothing" in caplog.text


def test_stopped_checks_return_nothing() -> None:
    """Neither the one in progress nor a later one."""
    stage = Stage()
    stage.run(1)
    stage.poller.stop()
    stage.run(2)

    assert stage.taken == [1]
    assert stage.calls == [None]


def test_check_may_end_after_the_loop() -> None:
    """A thread that hung can no longer report to it."""
    stage = Stage()

    def closed(*_: object) -> None:
        raise RuntimeError("the loop is closed")

    stage.loop.call_soon_threadsafe = closed  # type: ignore[method-assign]
    stage.run(1)
    assert stage.taken == []


def test_thread_runs_checks_until_the_stop() -> None:
    """It is named after the files. The stop does not wait for a check, and the thread ends after it."""
    loop, looked = FakeLoop(), threading.Event()
    poller = Poller("odd things", looked.set, lambda _: None, 1_000, loop, Timers(loop, loop.clock))  # type: ignore[arg-type]
    (thread,) = [each for each in threading.enumerate() if each.name == "odd-things"]
    poller.start()
    assert looked.wait(60)

    poller.stop()
    thread.join(60)
    assert not thread.is_alive()
