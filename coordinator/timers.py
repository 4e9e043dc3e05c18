"""Deadlines by key: one heap for all of a coordinator, made so that moving a deadline later costs a dictionary store.

Refused: callbacks. What is due comes out as keys, and whoever asked for them knows what they mean.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

#: The heap is built anew when it is this much larger than the number of live deadlines.
SLACK = 256


class Timers(Generic[K]):
    """One deadline per key, in milliseconds of whatever clock the caller uses throughout.

    Every heartbeat moves a session's deadline. So `schedule` leaves the heap alone when a key has an entry that fires
    no later than the new deadline; the entry is moved when it comes up (a *lazy* deadline).
    """

    __slots__ = ("_deadlines", "_entries", "_heap", "_sequence")

    def __init__(self) -> None:
        self._deadlines: dict[K, float] = {}
        self._entries: dict[K, float] = {}  # when the key's live entry in the heap comes up
        self._heap: list[tuple[float, int, K]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._deadlines)

    def __contains__(self, key: K) -> bool:
        return key in self._deadlines

    def schedule(self, key: K, deadline_ms: float) -> None:
        """Set the key's deadline, in place of one that it has."""
        self._deadlines[key] = deadline_ms
        entry = self._entries.get(key)
        if entry is None or deadline_ms < entry:
            self._push(key, deadline_ms)

    def cancel(self, key: K) -> None:
        """Forget the key's deadline, if it has one."""
        self._deadlines.pop(key, None)

    def deadline_ms(self, key: K) -> float | None:
        """When the key is due."""
        return self._deadlines.get(key)

    def next_check_ms(self) -> float | None:
        """When `expire` should be called next: never later than the earliest deadline, perhaps earlier."""
        return self._heap[0][0] if self._heap else None

    def expire(self, now_ms: float) -> Iterator[K]:
        """Take the keys out that are due, earliest entry first.

        Deadlines may be set and cancelled meanwhile; one that is set for now or earlier comes out the next time, so
        that whoever sets it again and again does not keep the caller for ever.
        """
        last = self._sequence
        while self._heap and self._heap[0][0] <= now_ms and self._heap[0][1] <= last:
            entry, _, key = heappop(self._heap)
            if self._entries.get(key) != entry:
                continue  # an earlier entry took over
            del self._entries[key]
            deadline = self._deadlines.get(key)
            if deadline is None:
                continue
            if deadline > now_ms:
                self._push(key, deadline)
            else:
                del self._deadlines[key]
                yield key

    def _push(self, key: K, deadline_ms: float) -> None:
        if len(self._heap) > 2 * len(self._deadlines) + SLACK:
            self._drop_stale_entries()
        self._sequence += 1  # equal deadlines come up in the order in which they were set
        self._entries[key] = deadline_ms
        heappush(self._heap, (deadline_ms, self._sequence, key))

    def _drop_stale_entries(self) -> None:
        self._entries = {key: entry for key, entry in self._entries.items() if key in self._deadlines}
        self._heap = [item for item in self._heap if self._entries.get(item[2]) == item[0]]
        heapify(self._heap)
