"""Logs that a start left unopened: opened a few at a time."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.maintenance import log_opening
from broker.maintenance.log_opening import LogOpening
from runtime.timers import Timers
from storage import unopened_logs
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from tests.support.fake_loop import FakeClock, FakeLoop
from tests.support.logs import T0, append, batch

TOPIC_ID = bytes(range(16))


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
        timers = Timers(self.loop, self.loop.clock)  # type: ignore[arg-type]
        self.opening = LogOpening(self.logs, self.loop, timers)  # type: ignore[arg-type]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    stage.opening.stop()
    stage.logs.close(T0)


def test_all_logs_are_opened_in_turns(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn ends after its time, so that clients have the loop in between."""
    monkeypatch.setattr(log_opening, "_TURN_S", 0)
    monkeypatch.setattr("broker.maintenance.log_opening.time", SimpleNamespace(perf_counter=lambda: 5.0))
    stage.opening.on_opened = lambda: calls.append(len(stage.logs.logs))
    calls: list[int] = []
    stage.opening.start()
    counts = [len(stage.logs.logs)]
    while stage.logs.unopened:
        stage.loop.advance(1)
        counts.append(len(stage.logs.logs))
    assert counts == calls == list(range(1, 11))


def test_requests_open_a_limited_number_per_turn(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before clients are served, there is no limit."""
    monkeypatch.setattr(log_opening, "_REQUESTED_LOGS_PER_TURN", 2)
    assert all(stage.opening.may_open() for _ in range(5))
    stage.opening.start()
    for _ in range(2):
        assert [stage.opening.may_open() for _ in range(4)] == [True, True, False, False]
        stage.loop.settle()


def test_requests_open_logs_for_a_limited_time_per_turn(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """At least one is opened."""
    now = [5.0]
    monkeypatch.setattr("broker.maintenance.log_opening.time", SimpleNamespace(perf_counter=lambda: now[0]))
    stage.opening.start()
    for _ in range(2):
        assert stage.opening.may_open()
        now[0] += log_opening._ASKED_S * 0.9
        assert stage.opening.may_open()
        now[0] += log_opening._ASKED_S * 0.2
        assert [stage.opening.may_open() for _ in range(2)] == [False, False]
        stage.loop.settle()


def test_logs_deleted_meanwhile_are_skipped(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs that requests opened stay open."""
    monkeypatch.setattr(log_opening, "_TURN_S", 0)
    stage.opening.start()
    stage.logs.delete("t", 5, "0" * 32, T0)
    stage.logs.open("t", 7)
    stage.loop.advance(100)
    assert (len(stage.logs.logs), len(stage.logs.unopened)) == (9, 0)


def test_lack_of_descriptors_is_retried(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """After some seconds."""

    def load_log(*_: object, **of: object) -> None:
        raise OSError(24, "too many open files")

    calls: list[int] = []
    stage.opening.on_opened = lambda: calls.append(len(stage.logs.logs))
    with monkeypatch.context() as patched:
        patched.setattr("storage.unopened_logs.load_log", load_log)
        stage.opening.start()
        stage.loop.advance(6_000)
    assert len(stage.logs.unopened) == 10
    assert not calls, "the garbage collector is still frozen"
    stage.loop.advance(6_000)
    assert calls[-1] == 10
    assert not stage.logs.unopened


def test_log_changed_since_its_stop_is_repaired(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """The repair is logged; one line reports that all logs are open."""
    caplog.set_level("INFO")
    path = stage.root / f"t-3/{0:020d}.log"
    path.write_bytes(path.read_bytes()[:-1])
    stage.opening.start()
    stage.loop.advance(1_000)
    assert append(stage.logs.logs["t", 3], batch()) == 1
    (remark,) = stage.remarks
    assert "were cut off" in remark
    assert caplog.messages[-1] == "All logs are open"


def test_log_that_cannot_be_opened_is_skipped(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is tried once, and others are opened."""
    caplog.set_level("INFO")
    load_log = unopened_logs.load_log
    tried: list[int] = []

    def load(directory: Any, stored: Any, cuts: Any) -> Any:
        tried.append(stored.partition)
        return 1 // 0 if stored.partition == 3 else load_log(directory, stored, cuts)

    monkeypatch.setattr(unopened_logs, "load_log", load)
    stage.opening.start()
    stage.loop.advance(20_000)
    assert sorted(tried) == list(range(10))
    assert "ZeroDivisionError" in str(stage.logs.unopened.refused["t", 3])
    assert caplog.messages[-1] == "All logs are open but 1, which are offline"


@pytest.mark.parametrize(("took_s", "pause_ms"), [(0.001, 1), (0.04, 40), (30, 500)])
def test_clients_have_the_loop_as_long_as_an_open_took(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, took_s: float, pause_ms: int
) -> None:
    """A log may be on a slow disk or need a repair."""
    now = [5.0]
    open_log = stage.logs.open

    def open_slowly(topic: str, partition: int) -> Any:
        now[0] += took_s
        return open_log(topic, partition)

    monkeypatch.setattr(stage.logs, "open", open_slowly)
    monkeypatch.setattr("broker.maintenance.log_opening.time", SimpleNamespace(perf_counter=lambda: now[0]))
    stage.opening.start()
    assert len(stage.logs.logs) == 1
    stage.loop.advance(pause_ms - 1)
    assert len(stage.logs.logs) == 1
    stage.loop.advance(1)
    assert len(stage.logs.logs) == 2


def test_stop_leaves_unopened_logs(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """No log is opened while logs are closed."""
    monkeypatch.setattr(log_opening, "_TURN_S", 0)
    stage.opening.start()
    stage.opening.stop()
    stage.loop.advance(10_000)
    assert len(stage.logs.unopened) == 9
