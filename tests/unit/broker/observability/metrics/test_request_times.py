"""Times of requests by phase: of the next request behind a tick, and of no other."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from broker.observability.metrics.metric import Timings
from broker.observability.metrics.request_times import TICK_MS, RequestTimes
from broker.observability.metrics.table import (
    LOCAL_TIME,
    QUEUE_TIME,
    REMOTE_TIME,
    SEND_TIME,
    TOTAL_TIME,
)
from runtime.deferred import Deferred
from runtime.turn import Turn
from tests.support.fake_loop import FakeLoop


class Stage:
    """One API, whose handler and shortcut take as many milliseconds as the test says, and a turn's end."""

    def __init__(self, name: str = "Produce") -> None:
        self.now = 100.0
        self.loop = FakeLoop()
        self.ticks: list[tuple[int, Callable[[], None]]] = []
        self.answer: Any = b"answer"
        self.takes_ms, self.sends_ms = 3, 2
        self.shortcut, self.handler = lambda *_: self.serve(), lambda ctx, request: self.serve()
        api = SimpleNamespace(name=name)
        self.codec: Any = SimpleNamespaceWithHash(api=api, shortcut=self.shortcut, handler=self.handler)
        self.turn = Turn(self.loop.call_soon)
        timers = SimpleNamespace(call_later=lambda delay_ms, call: self.ticks.append((delay_ms, call)))
        dispatcher = SimpleNamespace(codecs=[self.codec])
        self.broker: Any = SimpleNamespace(timers=timers, dispatcher=dispatcher, turn=self.turn)
        self.connection: Any = SimpleNamespace(send_now=lambda: self.passes(self.sends_ms))
        self.times = RequestTimes(self.broker, lambda: self.now)
        self.times.start()

    def passes(self, ms: float) -> None:
        self.now += ms / 1000

    def serve(self) -> Any:
        self.passes(self.takes_ms)
        return self.answer

    def tick(self) -> None:
        delay_ms, call = self.ticks.pop()
        assert delay_ms == TICK_MS
        call()

    def request(self, connection: Any = None) -> None:
        """As dispatch does it; the connection queues its answer behind what was measured."""
        connection = connection or self.connection
        if self.codec.shortcut(connection, memoryview(b""), 0, 1) is None:
            self.codec.handler(SimpleNamespace(connection=connection), None)

    def end_turn(self, after_ms: float) -> None:
        self.passes(after_ms)
        self.loop.turn()

    def counts(self) -> dict[str, int]:
        return {api: value.count for metric, (api,), value in self.samples() if metric is LOCAL_TIME}

    def samples(self) -> list[tuple[Any, tuple[str, ...], Timings]]:
        return list(self.times.samples())  # type: ignore[arg-type]

    def totals(self) -> dict[Any, float]:
        return {metric: round(value.total, 6) for metric, _, value in self.samples()}


class SimpleNamespaceWithHash(SimpleNamespace):
    __hash__ = object.__hash__  # type: ignore[assignment]


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_phases_follow_each_other(stage: Stage) -> None:
    """An answer at once: served, sent at the end of the turn."""
    stage.tick()
    stage.request()
    stage.end_turn(after_ms=5)

    assert stage.totals() == {LOCAL_TIME: 3, REMOTE_TIME: 0, QUEUE_TIME: 5, SEND_TIME: 2, TOTAL_TIME: 10}


def test_only_the_next_request_is_measured(stage: Stage) -> None:
    """Those before and behind it go the way that they went before."""
    stage.request()
    assert stage.counts() == {}
    stage.tick()
    stage.request()
    assert (stage.codec.shortcut, stage.codec.handler) == (stage.shortcut, stage.handler)
    stage.request()
    assert stage.counts() == {"Produce": 1}

    stage.tick()
    stage.tick()  # nobody has come meanwhile
    stage.request()
    assert (stage.codec.shortcut, stage.codec.handler) == (stage.shortcut, stage.handler)
    assert stage.counts() == {"Produce": 2}


def test_what_a_shortcut_leaves_is_measured_with_its_handler(stage: Stage) -> None:
    stage.codec.shortcut = lambda *_: None
    stage.tick()
    stage.request()

    assert stage.counts() == {"Produce": 1}
    assert stage.codec.handler is stage.handler


def test_what_waits_is_remote(stage: Stage) -> None:
    """Until it is resolved; then it is sent at the end of that turn, before the connection would do so."""
    waits: Deferred[bytes] = Deferred()
    stage.answer = waits
    stage.tick()
    stage.request()
    waits.add_done_callback(lambda _: stage.turn.at_end(lambda: stage.turn.send_at_end(lambda: stage.passes(1000))))
    stage.passes(40)
    waits.resolve(b"")
    stage.end_turn(after_ms=1)

    assert stage.totals() == {LOCAL_TIME: 3, REMOTE_TIME: 40, QUEUE_TIME: 1, SEND_TIME: 2, TOTAL_TIME: 46}


def test_request_of_a_client_that_has_gone_is_not_counted_on(stage: Stage) -> None:
    """Nor does it keep the next one from being measured."""
    stage.answer = Deferred()
    stage.tick()
    stage.request()
    stage.answer.cancel()
    stage.end_turn(after_ms=1)

    assert stage.totals() == {LOCAL_TIME: 3}
    assert stage.codec.handler is stage.handler


def test_request_that_another_process_has_sent_is_not_sent_from_here(stage: Stage) -> None:
    stage.tick()
    stage.request(SimpleNamespace())
    stage.end_turn(after_ms=1)

    assert stage.totals() == {LOCAL_TIME: 3, REMOTE_TIME: 0}


def test_fetches_are_of_consumers_too() -> None:
    """Under both of Kafka's names."""
    stage = Stage("Fetch")
    stage.tick()
    stage.request()

    assert stage.counts() == {"Fetch": 1, "FetchConsumer": 1}


def test_quantiles_are_named_as_the_exporters_rules_name_them(stage: Stage) -> None:
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
