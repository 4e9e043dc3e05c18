"""How long requests take, by phase, under Apache Kafka's names. Only a few requests are measured, to save time.

Four times a second, RequestTimes asks for a sample of each version of each API (`ApiVersionHandler.sample_next`). The
dispatcher measures the next request of that version and reports it. So at most four requests a second of each version
are measured, and each request of a version that is seldom used.

The phases follow each other, as in Kafka: the handler (local), what it waits for (remote), the rest of the turn until
answers are sent (response queue), and the send. Kafka also has a request queue. Here requests wait in the buffers of
their sockets instead, which cannot be measured: the delay of the event loop's timers shows how long that may be.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

from broker.observability.metrics.metric import (
    Metric,
    Sample,
    Timings,
    quantiles,
)
from broker.observability.metrics.metric_table import (
    LOCAL_TIME,
    QUEUE_TIME,
    REMOTE_TIME,
    SEND_TIME,
    TOTAL_TIME,
)
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from broker.requests.context import ClientConnection
    from runtime.timers import Timer, Timers
    from runtime.turn import Turn

TICK_MS = 250
#: Quantiles are of so many measurements.
_LATEST = 256


class SampledVersion(Protocol):
    """One version of one API."""

    def sample_next(self) -> None:
        """Have the next request measured."""


class SampledDispatcher(Protocol):
    """Where requests are measured."""

    def sample_with(self, sampler: RequestTimes) -> None:
        """Report measured requests to it."""

    @property
    def prepared(self) -> Iterable[SampledVersion]:
        """The versions that clients have used so far."""


class _Times:
    """The milliseconds that one phase of one API has taken."""

    __slots__ = ("count", "latest", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.latest: deque[float] = deque(maxlen=_LATEST)

    def note(self, took_s: float) -> None:
        took_ms = took_s * 1000
        self.count += 1
        self.total += took_ms
        self.latest.append(took_ms)


class RequestTimes:
    """Measures requests between `start` and `stop`, on the loop's thread. `clock` returns seconds."""

    def __init__(
        self,
        dispatcher: SampledDispatcher,
        timers: Timers,
        turn: Turn,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self._dispatcher = dispatcher
        self._timers = timers
        self._turn = turn
        self.clock = clock
        self._timer: Timer | None = None
        self._times: dict[tuple[Metric, str], _Times] = {}

    def start(self) -> None:
        """Begin to measure requests."""
        self._dispatcher.sample_with(self)
        self._wait()

    def stop(self) -> None:
        """Ask for no more samples. Those that were asked for are still measured."""
        if self._timer is not None:
            self._timer.cancel()

    def samples(self) -> Iterator[Sample]:
        """Yield the times of each phase by API. Fetch is reported also as FetchConsumer: no follower fetches."""
        for (metric, api), times in list(self._times.items()):
            timings = Timings(times.count, times.total, quantiles(times.latest))
            yield metric, (api,), timings
            if api == "Fetch":
                yield metric, ("FetchConsumer",), timings

    def on_served(self, api: str, connection: ClientConnection, began: float, answer: object) -> None:
        """Measure a request that began at `began`, whose handler has just returned `answer`."""
        now = self.clock()
        self._note(LOCAL_TIME, api, now - began)
        if type(answer) is not Deferred or answer.done:
            self._note(REMOTE_TIME, api, 0.0)
            self._turn.send_at_end(lambda: self._send(api, connection, began, now))
            return

        def resolved(_: object) -> None:  # called before the connection takes the answer
            since = self.clock()
            self._note(REMOTE_TIME, api, since - now)
            turn = self._turn
            turn.at_end(lambda: turn.send_at_end(lambda: self._send(api, connection, began, since)))

        answer.add_done_callback(resolved)

    def _wait(self) -> None:
        self._timer = self._timers.call_later(TICK_MS, self._tick)

    def _tick(self) -> None:
        self._wait()
        for each in self._dispatcher.prepared:
            each.sample_next()

    def _send(self, api: str, connection: ClientConnection, began: float, answered: float) -> None:
        """Send the answers of the connection, just before it would do so itself."""
        before = self.clock()
        send = getattr(connection, "send_now", None)
        if send is None:  # another process has the connection
            return
        send()
        after = self.clock()
        self._note(QUEUE_TIME, api, before - answered)
        self._note(SEND_TIME, api, after - before)
        self._note(TOTAL_TIME, api, after - began)

    def _note(self, metric: Metric, api: str, took_s: float) -> None:
        times = self._times.get((metric, api))
        if times is None:
            times = self._times[metric, api] = _Times()
        times.note(took_s)
