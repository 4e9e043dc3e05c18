"""How long requests take, by phase, under Apache Kafka's names: of a few of them, which cost nothing to the others.

Four times a second the next request of each API and version is marked: the functions that serve it are put into others,
which look at a clock and put the first ones back. So the way of all other requests is as if nobody looked, and of what
is measured there are at most four requests a second of each. They are those behind a tick of the clock, whichever those
are; APIs that are asked for seldom are measured each time.

The phases are, as in Kafka, what follows each other: the handler (local), what it waits for (remote), the end of the
turn in which answers are sent (response queue), and the send. How long requests lie in their sockets' buffers, where
Kafka has a queue of its own, nobody can see: how late the event loop comes to its timers tells.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import TYPE_CHECKING, Any

from broker.observability.metrics.metric import (
    Metric,
    Sample,
    Timings,
    quantiles,
)
from broker.observability.metrics.table import (
    LOCAL_TIME,
    QUEUE_TIME,
    REMOTE_TIME,
    SEND_TIME,
    TOTAL_TIME,
)
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.network.connection import Connection
    from broker.requests.dispatcher import Codec, RequestContext
    from broker.requests.served_api import Reply
    from protocol.schema import Struct
    from runtime.timers import Timer

TICK_MS = 250
#: Quantiles are of so many.
_LATEST = 256


class _Times:
    """Milliseconds that one phase of one API has taken."""

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
    """From `start` on until `stop`; all on the loop's thread. `clock` gives seconds."""

    def __init__(self, broker: Broker, clock: Callable[[], float] = perf_counter) -> None:
        self._broker = broker
        self._clock = clock
        self._timer: Timer | None = None
        self._marked: set[Codec] = set()
        self._times: dict[tuple[Metric, str], _Times] = {}

    def start(self) -> None:
        """Begin to look at some requests."""
        self._timer = self._broker.timers.call_later(TICK_MS, self._tick)

    def stop(self) -> None:
        """Mark no more; those that are marked are seen to."""
        if self._timer is not None:
            self._timer.cancel()

    def samples(self) -> Iterator[Sample]:
        """What there is of each phase, by API; Fetch also as what consumers fetch, who alone do."""
        for (metric, api), times in list(self._times.items()):
            timings = Timings(times.count, times.total, quantiles(times.latest))
            yield metric, (api,), timings
            if api == "Fetch":
                yield metric, ("FetchConsumer",), timings

    def _tick(self) -> None:
        self.start()
        for codec in self._broker.dispatcher.codecs:
            if codec not in self._marked:
                self._mark(codec)

    def _mark(self, codec: Codec) -> None:
        shortcut, handler, clock = codec.shortcut, codec.handler, self._clock
        self._marked.add(codec)

        def unmark() -> None:
            codec.shortcut, codec.handler = shortcut, handler
            self._marked.discard(codec)

        def timed_shortcut(connection: Connection, frame: memoryview, body: int, correlation_id: int) -> Any:
            assert shortcut is not None
            began = clock()
            answer = shortcut(connection, frame, body, correlation_id)
            if answer is not None:  # else the handler is asked, which is marked, too
                unmark()
                self._served(codec.api.name, connection, began, answer)
            return answer

        def timed_handler(ctx: RequestContext, request: Struct) -> Reply:
            unmark()
            began = clock()
            reply = handler(ctx, request)
            self._served(codec.api.name, ctx.connection, began, reply)
            return reply

        codec.shortcut = None if shortcut is None else timed_shortcut
        codec.handler = timed_handler

    def _served(self, api: str, connection: Connection, began: float, answer: object) -> None:
        now = self._clock()
        self._note(LOCAL_TIME, api, now - began)
        if type(answer) is not Deferred or answer.done:
            self._note(REMOTE_TIME, api, 0.0)
            self._broker.turn.send_at_end(lambda: self._send(api, connection, began, now))
            return

        def resolved(_: object) -> None:  # before the connection hears of it
            since = self._clock()
            self._note(REMOTE_TIME, api, since - now)
            turn = self._broker.turn
            turn.at_end(lambda: turn.send_at_end(lambda: self._send(api, connection, began, since)))

        answer.add_done_callback(resolved)

    def _send(self, api: str, connection: Connection, began: float, answered: float) -> None:
        """Its turn to be sent, just before the connection would do so by itself."""
        before = self._clock()
        send = getattr(connection, "send_now", None)
        if send is None:  # another process has the connection
            return
        send()
        after = self._clock()
        self._note(QUEUE_TIME, api, before - answered)
        self._note(SEND_TIME, api, after - before)
        self._note(TOTAL_TIME, api, after - began)

    def _note(self, metric: Metric, api: str, took_s: float) -> None:
        times = self._times.get((metric, api))
        if times is None:
            times = self._times[metric, api] = _Times()
        times.note(took_s)
