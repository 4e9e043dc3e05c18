"""The appends with acks=all that wait until all in-sync replicas have them. Kafka's purgatory of DelayedProduce."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from operator import attrgetter
from typing import NamedTuple

from broker.requests.error_code_map import NotCommitted
from protocol.error_codes import ErrorCode
from runtime.deferred import Deferred
from runtime.timers import Timer, Timers


class _Wait(NamedTuple):
    end_offset: int
    deadline_ms: int
    committed: Deferred[None]


class Commits:
    """The waits of one partition.

    Appends have ascending offsets, so waits are added at the end; only a repeated batch of an idempotent producer is
    inserted further in front. One timer is armed, for the earliest deadline of those that wait or have waited: most
    waits end long before, and the next one begins at once.
    """

    __slots__ = ("_timer", "_waits", "timers")

    def __init__(self, timers: Timers) -> None:
        self.timers = timers
        self._timer: Timer | None = None
        self._waits: deque[_Wait] = deque()

    def __len__(self) -> int:
        return len(self._waits)

    def wait(self, end_offset: int, deadline_ms: int) -> Deferred[None]:
        """Resolve once the high watermark has reached `end_offset`. Fails with NotCommitted.

        `deadline_ms` is of the monotonic clock.
        """
        committed: Deferred[None] = Deferred(mutes=False)
        wait = _Wait(end_offset, deadline_ms, committed)
        waits = self._waits
        if not waits or waits[-1].end_offset <= end_offset:
            waits.append(wait)
        else:
            waits.insert(bisect_right(waits, end_offset, key=attrgetter("end_offset")), wait)
        self._arm(deadline_ms)
        return committed

    def advance(self, high_watermark: int, code: ErrorCode) -> None:
        """End the waits for offsets up to the high watermark: with an error unless `code` is NONE."""
        waits = self._waits
        while waits and waits[0].end_offset <= high_watermark:
            _end(waits.popleft(), code)

    def fail(self, code: ErrorCode) -> None:
        """End all waits with an error: this broker leads no longer."""
        waits, self._waits = self._waits, deque()
        for wait in waits:
            _end(wait, code)
        if self._timer is not None and not self._waits:
            self._timer.cancel()
            self._timer = None

    def _arm(self, deadline_ms: int) -> None:
        if self._timer is not None:
            if self._timer.deadline_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._timer = self.timers.call_at(deadline_ms, lambda: self._expire(deadline_ms))

    def _expire(self, now_ms: int) -> None:
        self._timer = None
        expired = [each for each in self._waits if each.deadline_ms <= now_ms]
        self._waits = deque(each for each in self._waits if each.deadline_ms > now_ms)
        if self._waits:
            self._arm(min(each.deadline_ms for each in self._waits))
        for wait in expired:
            _end(wait, ErrorCode.REQUEST_TIMED_OUT)


def _end(wait: _Wait, code: ErrorCode) -> None:
    if code is ErrorCode.NONE:
        wait.committed.resolve(None)
    else:
        wait.committed.fail(NotCommitted(code))
