"""The liveness check of a worker: the main process checks that the worker's event loop still runs.

A process that hangs does not end, and its clients would wait for it. The check counts beats, not seconds: a pause of
the main process itself counts as one beat, however long it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from broker.workers.messages import LivenessCheck

if TYPE_CHECKING:
    from broker.workers.link import Link
    from runtime.deferred import Deferred

#: As often as a Kafka broker sends heartbeats to its controller (broker.heartbeat.interval.ms).
BEAT_S = 2.0
#: A disk may block a loop for many seconds, and a restarted process would have the same disk.
BEATS_WITHOUT_ANSWER = 15


class _Handle(Protocol):
    def cancel(self) -> None: ...


class _Loop(Protocol):
    def call_later(self, delay: float, callback: Callable[[], None]) -> _Handle: ...


class LivenessMonitor:
    """Sends beats from `start` to `stop`. Calls `on_silence` after too many beats in a row without an answer."""

    def __init__(self, loop: _Loop, link: Link, on_silence: Callable[[], None]) -> None:
        self._loop = loop
        self._link = link
        self._on_silence = on_silence
        self._asked: Deferred[Any] | None = None
        self._missed = 0
        self._timer: _Handle | None = None

    def start(self) -> None:
        self._timer = self._loop.call_later(BEAT_S, self._beat)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _beat(self) -> None:
        if self._asked is None or self._asked.done:
            self._missed = 0
            self._asked = self._link.ask(LivenessCheck())
        else:
            self._missed += 1
        if self._missed < BEATS_WITHOUT_ANSWER:
            self.start()
        else:
            self._on_silence()
