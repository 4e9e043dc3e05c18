"""Remove expired state in small steps, so that a long walk does not block the event loop."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic

from broker.coordinators.shard_log import R, S, ShardLog

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

#: How long one step may block the event loop.
SLICE_MS = 5
#: Records written at a time. Writing them takes about as long as a slice.
MOST_RECORDS = 1_000


class Expiry(Generic[S, R]):
    """One walk through some shards.

    Args:
        remove: writes records of a shard before the walk goes on, and reports that it did.
        walks: a walk for each shard, done one after the other. Each step of a walk yields the records (tombstones)
            that remove expired state.
    """

    def __init__(
        self,
        loop: AbstractEventLoop,
        remove: Callable[[ShardLog[S, R], Sequence[R]], None],
        walks: Iterable[tuple[ShardLog[S, R], Iterator[Sequence[R]]]],
    ) -> None:
        self._loop = loop
        self._remove = remove
        self._walks = deque(walks)

    def go_on(self) -> None:
        """Walk for one slice, and schedule the rest for a later turn of the loop."""
        until = time.monotonic() + SLICE_MS / 1000
        while self._walks:
            found, steps = self._walks[0]
            records, is_over = _take(steps, until)
            if is_over:
                self._walks.popleft()
            if records:
                self._remove(found, records)
            if time.monotonic() >= until:
                self._loop.call_soon(self.go_on)
                return


def _take(steps: Iterator[Sequence[R]], until: float) -> tuple[list[R], bool]:
    """Return the records of the steps until `until`, and whether no steps are left."""
    records: list[R] = []
    for step in steps:
        records += step
        if len(records) >= MOST_RECORDS or time.monotonic() >= until:
            return records, False
    return records, True
