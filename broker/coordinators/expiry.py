"""Removing what has expired: a little in each turn of the loop, however much there is to look at."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic

from broker.coordinators.shard_log import R, S, ShardLog

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

#: How long it may keep the loop from its sockets at a time.
SLICE_MS = 5
#: Records written at a time; to write them takes as long as a slice.
MOST_RECORDS = 1_000


class Expiry(Generic[S, R]):
    """One look through some shards.

    Args:
        remove: writes records of a shard, which has to be done before anything else may happen, and tells of it.
        walks: through each shard, one after the other; the steps of a walk give records that remove what has expired.
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
        """Walk for a slice; what is left goes on in a later turn."""
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
    """What some steps give, and whether there are no more."""
    records: list[R] = []
    for step in steps:
        records += step
        if len(records) >= MOST_RECORDS or time.monotonic() >= until:
            return records, False
    return records, True
