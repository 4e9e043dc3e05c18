"""The pulse of a worker: whether its event loop still turns, as the main process sees it.

A process that hangs has not ended: its clients would wait for it until somebody looks. Beats are counted, not seconds:
a pause of the main process itself counts as one beat, however long it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from broker.workers.messages import Beat

if TYPE_CHECKING:
    from broker.workers.link import Link
    from runtime.deferred import Deferred

#: As often as a broker of Kafka's tells its controller that it is there (broker.heartbeat.interval.ms).
BEAT_S = 2.0
#: A disk may hold a loop up for many seconds, and a process that is started anew would have the same disk.
BEATS_WITHOUT_ANSWER = 15


class _Handle(Protocol):
    def cancel(self) -> None: ...


class _Loop(Protocol):
    def call_later(self, delay: float, callback: Callable[[], None]) -> _Handle: ...


class Pulse:
    """From `start` on until `stop`. `on_silence` is called once too many beats in a row went by without an answer."""

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
            self._asked = self._link.ask(Beat())
        else:
            self._missed += 1
        if self._missed < BEATS_WITHOUT_ANSWER:
            self.start()
        else:
            self._on_silence()
