"""Limits the time of login steps in each turn of the loop. Further steps wait for later turns, in order.

Signatures, proofs and the credentials of tokens are computed on the loop. Each takes a few milliseconds, mostly in
Python code, so threads would not help. A connection has one step at a time, but a client may open a thousand
connections. Authenticated clients are served between any two slices of login steps.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from broker.requests.dispatcher import CloseConnection
from protocol.error_codes import ProtocolError
from runtime.deferred import Deferred

log = logging.getLogger(__name__)

T = TypeVar("T")

#: The time for login steps in one turn. A step is not interrupted, so a turn may take longer by one step.
_SLICE_NS = 2_000_000
#: Larger frames wait only while there is room for them; smaller ones, as in most logins, always may.
_SMALL_BYTES = 20 * 1024
_MOST_HELD_BYTES = 16 << 20


class LoginPace:
    """The limit of all listeners together. `now_ns` is a monotonic clock."""

    def __init__(
        self, call_soon: Callable[[Callable[[], None]], object], now_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._call_soon = call_soon
        self._now_ns = now_ns
        self._spent_ns = 0
        self._turn_begun = False
        self._held_bytes = 0
        self._queue: deque[Callable[[], None]] = deque()

    @property
    def has_time(self) -> bool:
        """Whether the next step may run at once."""
        return self._spent_ns < _SLICE_NS

    def has_room(self, size: int) -> bool:
        """Whether a step that holds `size` bytes may wait."""
        return size <= _SMALL_BYTES or self._held_bytes + size <= _MOST_HELD_BYTES

    def __call__(self, step: Callable[[], T | None], held_bytes: int = 0) -> T | Deferred[T] | None:
        """Return what `step()` returns, now or in a later turn. If that is None, the Deferred is not resolved.

        `held_bytes`: the memory that it holds while it waits.
        """
        if not self._turn_begun:
            self._turn_begun = True
            self._call_soon(self._next_turn)
        if self.has_time:
            began = self._now_ns()
            try:
                return step()
            finally:
                self._spent_ns += self._now_ns() - began
        deferred: Deferred[T] = Deferred()
        held_bytes = held_bytes if held_bytes > _SMALL_BYTES else 0
        self._held_bytes += held_bytes
        self._queue.append(lambda: self._take_up(step, deferred, held_bytes))
        return deferred

    def _next_turn(self) -> None:
        self._spent_ns = 0
        began = self._now_ns()
        while self._queue and self.has_time:
            self._queue.popleft()()
            self._spent_ns = self._now_ns() - began
        self._turn_begun = bool(self._queue) or self._spent_ns > 0
        if self._turn_begun:
            self._call_soon(self._next_turn)

    def _take_up(self, step: Callable[[], T | None], deferred: Deferred[T], held_bytes: int) -> None:
        self._held_bytes -= held_bytes
        if deferred.cancelled:  # the client has disconnected
            return
        try:
            value = step()
        except (ProtocolError, CloseConnection) as error:
            deferred.fail(error)
        except Exception:
            log.exception("A step of a login failed")
            deferred.fail(CloseConnection("a step of its login failed"))
        else:
            if value is not None:
                deferred.resolve(value)
