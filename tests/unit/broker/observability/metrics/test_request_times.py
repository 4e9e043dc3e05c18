"""Request times by phase: measured for the first request after a tick, and no other."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from broker.observability.metrics.metric import Timings
from broker.observability.metrics.metric_table import (
    LOCAL_TIME,
    QUEUE_TIME,
    REMOTE_TIME,
    SEND_TIME,
    TOTAL_TIME,
)
from broker.observability.metrics.request_times import TICK_MS, RequestTimes
from broker.requests.dispatcher import Dispatcher
from protocol.messages.fetch import FETCH
from protocol.messages.produce import PRODUCE
from protocol.schema import Api, Struct
from runtime.deferred import Deferred
from runtime.turn import Turn
from tests.support.fake_loop import FakeLoop
from tests.support.network import served_by
from tests.support.request_stage import RequestStage


class Stage(RequestStage):
    """A dispatcher of one API. Its fast path and its handler take as many milliseconds as the test says."""

    def __init__(self, api: Api = PRODUCE) -> None:
        self.now = 100.0
        self.loop = FakeLoop()
        self.ticks: list[tuple[int, Callable[[], None]]] = []
        self.answer: Any = b"answer"
        self.takes_ms, self.sends_ms = 3, 2
        self.api = api
        self.turn = Turn(self.loop.call_soon)
        fast_path = {api: lambda version: self.serve_by_fast_path}
        super().__init__(Dispatcher(served_by({api: self.serve_by_handler}, fast_path)))
        self.connection: Any = SimpleNamespace(send_now=lambda: self.passes(self.sends_ms))
        timers: Any = SimpleNamespace(call_later=lambda delay_ms, call: self.ticks.append((delay_ms, call)))
        self.times = RequestTimes(self.dispatcher, timers, self.turn, lambda: self.now)
        self.times.start()
        self.request()  # prepares the version

    def passes(self, ms: float) -> None:
        self.now += ms / 1000

    def serve_by_fast_path(self, *_: object) -> Any:
        """Leave the request to the handler if there is no response."""
        if self.answer is not None:
            self.passes(self.takes_ms)
        return self.answer

    def serve_by_handler(self, *_: object) -> Struct:
        self.passes(self.takes_ms)
        return self.api.response()

    def tick(self) -> None:
        delay_ms, call = self.ticks.pop()
        assert delay_ms == TICK_MS
        call()

    def request(self, connection: Any = None) -> None:
        """Send one request; the connection queues its response after the measurement."""
        self.ask(self.api, self.api.versions.max, connection or self.connection)

    def end_turn(self, after_ms: float) -> None:
        self.passes(after_ms)
        self.loop.turn()

    def counts(self) -> dict[str, int]:
        return {api: value.count for metric, (api,), value in self.samples() if metric is LOCAL_TIME}

    def samples(self) -> list[tuple[Any, tuple[str, ...], Timings]]:
        return list(self.times.samples())  # type: ignore[arg-type]

    def totals(self) -> dict[Any, float]:
        return {metric: round(value.total, 6) for metric, _, value in self.samples()}


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_phases_follow_each_other(stage: Stage) -> None:
    """A response at once: served, then sent at the end of the turn."""
    stage.tick()
    stage.request()
    stage.end_turn(after_ms=5)

    assert stage.totals() == {LOCAL_TIME: 3, REMOTE_TIME: 0, QUEUE_TIME: 5, SEND_TIME: 2, TOTAL_TIME: 10}


def test_only_the_next_request_is_measured(stage: Stage) -> None:
    """Not the request before the tick, and not the one after."""
    stage.request()
    assert stage.counts() == {}
    stage.tick()
    stage.request()
    stage.request()
    assert stage.counts() == {"Produce": 1}

    stage.tick()
    stage.tick()  # without a request in between
    stage.request()
    stage.request()
    assert stage.counts() == {"Produce": 2}


def test_request_left_by_a_fast_path_is_measured_once(stage: Stage) -> None:
    stage.answer = None
    stage.tick()
    stage.request()
    stage.request()

    assert stage.counts() == {"Produce": 1}
    assert stage.totals()[LOCAL_TIME] == 3


def test_wait_of_a_deferred_response_is_remote_time(stage: Stage) -> None:
    """Once resolved, it is sent at the end of that turn."""
    waits: Deferred[bytes] = Deferred()
    stage.answer = waits
    stage.tick()
    stage.request()
    waits.add_done_callback(lambda _: stage.turn.at_end(lambda: stage.turn.send_at_end(lambda: stage.passes(1000))))
    stage.passes(40)
    waits.resolve(b"")
    stage.end_turn(after_ms=1)

    assert stage.totals() == {LOCAL_TIME: 3, REMOTE_TIME: 40, QUEUE_TIME: 1, SEND_TIME: 2, TOTAL_TIME: 46}


def test_closed_connection_keeps_its_local_time_only(stage: Stage) -> None:
    """The next request is measured."""
    stage.answer = Deferred()
    stage.tick()
    stage.request()
    stage.answer.cancel()
    stage.end_turn(after_ms=1)

    assert stage.totals() == {LOCAL_TIME: 3}
    stage.answer = b"answer"
    stage.tick()
    stage.request()
    assert stage.counts() == {"Produce": 2}


def test_forwarded_request_has_no_send_times(stage: Stage) -> None:
    stage.tick()
    stage.request(SimpleNamespace())
    stage.end_turn(after_ms=1)

    assert stage.totals() == {LOCAL_TIME: 3, REMOTE_TIME: 0}


def test_fetches_are_counted_as_fetch_consumer() -> None:
    """Under both names of Kafka."""
    stage = Stage(FETCH)
    stage.tick()
    stage.request()

    assert stage.counts() == {"Fetch": 1, "FetchConsumer": 1}


def test_quantiles_are_named_as_by_the_exporter(stage: Stage) -> None:
    """50thPercentile is 0.50."""
    for number in range(100):
        stage.takes_ms = number
        stage.tick()
        stage.request()
    ((_, _, timings),) = [each for each in stage.samples() if each[0] is LOCAL_TIME]

    found = dict(timings.quantiles)
    assert list(found) == ["0.50", "0.75", "0.95", "0.98", "0.99", "0.999"]
    assert found["0.50"] == pytest.approx(49)
    assert found["0.99"] == pytest.approx(98)
