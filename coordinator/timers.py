"""Deadlines by key: one heap for a coordinator, in which moving a deadline to a later time costs one dictionary store.

There are no callbacks: `expire` returns the keys that are due, and its caller acts on them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

#: The heap is rebuilt when it has this many entries more than twice the number of deadlines.
SLACK = 256


class Timers(Generic[K]):
    """One deadline per key, in milliseconds of any clock that the caller uses throughout.

    Every heartbeat moves the deadline of a session. So `schedule` does not touch the heap if the key's entry is due no
    later than the new deadline. The entry is moved when it comes to the top (a *lazy* deadline).
    """

    __slots__ = ("_deadlines", "_entries", "_heap", "_sequence")

    def __init__(self) -> None:
        self._deadlines: dict[K, float] = {}
        self._entries: dict[K, float] = {}  # when the key's current entry in the heap is due
        self._heap: list[tuple[float, int, K]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._deadlines)

    def __contains__(self, key: K) -> bool:
        return key in self._deadlines

    def schedule(self, key: K, deadline_ms: float) -> None:
        """Set the deadline of a key, replacing an earlier one."""
        self._deadlines[key] = deadline_ms
        entry = self._entries.get(key)
        if entry is None or deadline_ms < entry:
            self._push(key, deadline_ms)

    def cancel(self, key: K) -> None:
        """Remove the deadline of a key, if it has one."""
        self._deadlines.pop(key, None)

    def deadline_ms(self, key: K) -> float | None:
        """Return the deadline of a key, or None."""
        return self._deadlines.get(key)

    def next_check_ms(self) -> float | None:
        """Return when to call `expire` next, at the latest at the earliest deadline. None: there are no deadlines."""
        return self._heap[0][0] if self._heap else None

    def expire(self, now_ms: float) -> Iterator[K]:
        """Remove and yield the keys that are due, the earliest entry first.

        The caller may set and cancel deadlines meanwhile. A deadline that is set to now or earlier is returned by the
        next call only, so that a caller that sets deadlines repeatedly does not loop for ever.
        """
        last = self._sequence
        while self._heap and self._heap[0][0] <= now_ms and self._heap[0][1] <= last:
            entry, _, key = heappop(self._heap)
            if self._entries.get(key) != entry:
                continue  # an earlier entry has replaced this one
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
        self._sequence += 1  # equal deadlines are due in the order in which they were set
        self._entries[key] = deadline_ms
        heappush(self._heap, (deadline_ms, self._sequence, key))

    def _drop_stale_entries(self) -> None:
        self._entries = {key: entry for key, entry in self._entries.items() if key in self._deadlines}
        self._heap = [item for item in self._heap if self._entries.get(item[2]) == item[0]]
        heapify(self._heap)
