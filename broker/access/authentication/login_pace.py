"""Steps of logins get so much time of each turn of the loop; what is beyond that waits its turn, in order.

Signatures, proofs and the credentials of tokens are computed on the loop: each takes a millisecond or few, most of it
in Python, which threads would not take off it. Of one connection there is one at a time, but anybody may open a
thousand: who has logged in is served between any two slices of theirs.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from broker.requests.dispatcher import CloseConnection
from protocol.errors import ProtocolError
from runtime.deferred import Deferred

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Of a turn. A step that has begun is not broken off: a turn may take longer by one.
_SLICE_NS = 2_000_000
#: Frames that are larger wait as long as there is room for them, smaller ones in any case: most logins are.
_SMALL_BYTES = 20 * 1024
_MOST_HELD_BYTES = 16 << 20


class LoginPace:
    """Of all listeners together. `now_ns` is a clock that does not jump."""

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
        """Whether the next step is taken at once."""
        return self._spent_ns < _SLICE_NS

    def has_room(self, size: int) -> bool:
        """Whether a step may wait that holds so many bytes."""
        return size <= _SMALL_BYTES or self._held_bytes + size <= _MOST_HELD_BYTES

    def __call__(self, step: Callable[[], T | None], held_bytes: int = 0) -> T | Deferred[T] | None:
        """What `step()` gives, now or in a turn to come; a Deferred stays as it is where that is None.

        `held_bytes`: what it holds while it waits.
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
        if deferred.cancelled:  # the client has hung up
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
