"""Logs that a start has left for later: opened a few at a time, and repaired by workers."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker import log_opening
from broker.log_opening import LogOpening
from broker.timers import Timers
from broker.workers import WorkersClosed
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from tests.support.fake_loop import FakeClock, FakeLoop
from tests.support.instant_workers import InstantWorkers
from tests.support.logs import T0, append, batch

TOPIC_ID = bytes(range(16))


class Pool(InstantWorkers):
    """A pool that can be closed, and whose jobs can be taken back."""

    def submit(self, function: Any, *args: Any) -> Any:
        deferred = super().submit(function, *args)
        deferred.on_cancel(self._jobs.clear)
        return deferred

    def close(self) -> None:
        while self._jobs:
            self._jobs.pop()[1].fail(WorkersClosed("recovery"))


class Stage:
    """Ten partitions of one record after a clean stop."""

    def __init__(self, root: Path) -> None:
        self.root = root
        manager = LogManager([str(root)])
        manager.lock()
        for index in range(10):
            append(manager.create("t", index, TOPIC_ID, LogConfig(), T0), batch())
        manager.close(T0)
        self.remarks: list[str] = []
        self.logs = LogManager([str(root)], on_remark=self.remarks.append)
        self.logs.lock()
        self.logs.load(lambda topic: LogConfig(), T0, may_wait=lambda directory, stored: True)
        self.loop = FakeLoop(FakeClock())
        self.workers = Pool()
        config: Any = SimpleNamespace(get_int={"num.recovery.threads.per.data.dir": 2}.__getitem__)
        timers = Timers(self.loop, self.loop.clock)  # type: ignore[arg-type]
        self.opening = LogOpening(self.logs, config, self.loop, timers, lambda size: self.workers)  # type: ignore[arg-type, return-value]

    def cut(self, index: int) -> None:
        """Somebody cuts a byte off a log."""
        path = self.root / f"t-{index}/{0:020d}.log"
        path.write_bytes(path.read_bytes()[:-1])


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    stage.opening.stop()
    stage.logs.close(T0)


def test_all_are_opened_some_at_a_time(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn ends when its time is over; clients have the loop until the next."""
    monkeypatch.setattr(log_opening, "_TURN_S", 0)
    stage.opening.on_opened = lambda: told.append(len(stage.logs.logs))
    told: list[int] = []
    stage.opening.start()
    counts = [len(stage.logs.logs)]
    while stage.logs.unopened:
        stage.loop.advance(1)
        counts.append(len(stage.logs.logs))
    assert counts == told == list(range(1, 11))


def test_those_who_ask_have_so_many_opened_in_a_turn(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before there are clients, as many as they like."""
    monkeypatch.setattr(log_opening, "_ASKED_A_TURN", 2)
    assert all(stage.opening.may_open() for _ in range(5))
    stage.opening.start()
    for _ in range(2):
        assert [stage.opening.may_open() for _ in range(4)] == [True, True, False, False]
        stage.loop.settle()


def test_those_who_ask_have_logs_opened_for_so_long_in_a_turn(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some logs take longer than others; one is opened in any case."""
    now = [5.0]
    monkeypatch.setattr("broker.log_opening.time", SimpleNamespace(perf_counter=lambda: now[0]))
    stage.opening.start()
    for _ in range(2):
        assert stage.opening.may_open()
        now[0] += log_opening._ASKED_S * 0.9
        assert stage.opening.may_open()
        now[0] += log_opening._ASKED_S * 0.2
        assert [stage.opening.may_open() for _ in range(2)] == [False, False]
        stage.loop.settle()


def test_what_is_deleted_meanwhile_is_passed_over(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what others have opened stays open."""
    monkeypatch.setattr(log_opening, "_TURN_S", 0)
    stage.opening.start()
    stage.logs.delete("t", 5, "0" * 32, T0)
    stage.logs.open("t", 7)
    stage.loop.advance(100)
    assert (len(stage.logs.logs), len(stage.logs.unopened)) == (9, 0)


def test_a_lack_of_descriptors_passes(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some seconds later they are tried again."""

    def open_in_order(*_: object, **of: object) -> None:
        raise OSError(24, "too many open files")

    told: list[int] = []
    stage.opening.on_opened = lambda: told.append(len(stage.logs.logs))
    with monkeypatch.context() as patched:
        patched.setattr("storage.unopened_logs.open_in_order", open_in_order)
        stage.opening.start()
        stage.loop.advance(6_000)
    assert len(stage.logs.unopened) == 10
    assert not told, "the collector would be told for ever to leave alone what clients have left behind"
    stage.loop.advance(6_000)
    assert told[-1] == 10
    assert not stage.logs.unopened


def test_a_log_that_is_out_of_order_is_repaired_by_a_worker(stage: Stage) -> None:
    """The others do not wait for it; it is told once what was done."""
    stage.cut(3)
    stage.workers.held = True
    stage.opening.start()
    stage.loop.advance(10_000)
    assert set(stage.logs.unopened) == {("t", 3)}
    assert stage.workers.submitted == 1
    stage.workers.release()
    assert not stage.logs.unopened
    assert append(stage.logs.logs["t", 3], batch()) == 1
    assert len(stage.remarks) == 2
    assert "it is offline until it is repaired" in stage.remarks[0]
    assert "were cut off" in stage.remarks[1]


def test_a_repair_whose_process_dies_is_begun_anew(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """It says nothing about the log."""
    stage.cut(3)
    stage.workers.held = True
    stage.opening.start()
    stage.loop.advance(1_000)
    stage.workers.die()
    assert "t-3 is repaired later: killed" in caplog.text
    stage.workers.held = False
    stage.loop.advance(10_000)
    assert not stage.logs.unopened


def test_a_repair_at_which_every_process_dies_is_given_up(stage: Stage) -> None:
    """It says something about the log by then."""
    stage.cut(3)
    stage.workers.held = True
    stage.opening.start()
    for _ in range(3):
        stage.loop.advance(10_000)
        stage.workers.die()
    stage.loop.advance(10_000)
    assert stage.workers.submitted == 3
    assert "WorkerDied" in str(stage.logs.refused["t", 3])


def test_a_stop_waits_for_repairs(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they have found is taken over; but not for ever."""
    stage.cut(3)
    stage.workers.held = True
    stage.opening.start()
    stage.loop.advance(1_000)

    async def stop() -> None:
        with monkeypatch.context() as patched:
            patched.setattr(log_opening, "_LAST_REPAIRS_S", 0.05)
            await stage.opening.end_repairs()
        assert stage.logs.unopened
        ended = asyncio.ensure_future(stage.opening.end_repairs())
        await asyncio.sleep(0.05)
        assert not ended.done()
        stage.workers.release()
        await ended

    asyncio.run(stop())
    assert stage.logs.logs["t", 3].log_end_offset == 1


def test_a_repair_that_finds_something_else_leaves_the_log_offline(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever it is; what is open then, one line says."""
    caplog.set_level("INFO")
    stage.cut(3)
    stage.workers.run = lambda function, *args: 1 // 0  # type: ignore[method-assign]
    stage.opening.start()
    stage.loop.advance(20_000)
    assert "ZeroDivisionError" in str(stage.logs.refused["t", 3])
    assert stage.workers.submitted == 1
    assert caplog.messages[-1] == "All logs are open but 1, which are offline"


def test_a_repair_ends_with_its_topic_and_with_the_broker(stage: Stage) -> None:
    """What is half done is done again at the next start."""
    stage.cut(3)
    stage.cut(4)
    stage.workers.held = True
    stage.opening.start()
    stage.loop.advance(1_000)
    stage.logs.delete("t", 3, "0" * 32, T0)
    assert not stage.workers.is_wanted
    stage.opening.stop()
    assert set(stage.logs.unopened) == {("t", 4)}
