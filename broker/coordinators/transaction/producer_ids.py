"""Producer ids, never issued twice, not even after a crash. The metadata log reserves blocks of 1,000 (KIP-730).

The unused ids of a block are lost when the broker stops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from runtime.deferred import Deferred, after

if TYPE_CHECKING:
    from broker.requests.served_api import Reply

BLOCK_SIZE = 1_000


class ProducerIds:
    """Issues ids from a block, and requests the next block when one is used up.

    Args:
        allocate: reserves this many ids; resolves to the first of them once that is on disk.
    """

    def __init__(self, allocate: Callable[[int], Deferred[int]]) -> None:
        self._allocate = allocate
        self._next = 0
        self._end = 0
        self._waiting: list[Deferred[None]] = []

    @property
    def available(self) -> bool:
        """Return whether `next` has an id to issue."""
        return self._next < self._end

    def next(self) -> int:
        """Issue an id. Call it only when `available`."""
        assert self._next < self._end
        self._next += 1
        return self._next - 1

    def with_ids(self, serve: Callable[[], Reply]) -> Reply:
        """Call `serve()` when ids are available: at once, or later."""
        return serve() if self.available else after(self.replenish(), serve)

    def replenish(self) -> Deferred[None]:
        """Resolve when ids are available for all waiting requests. They share one request for a block."""
        deferred: Deferred[None] = Deferred()
        self._waiting.append(deferred)
        if len(self._waiting) == 1:
            self._allocate(BLOCK_SIZE).add_done_callback(self._on_block)
        return deferred

    def _on_block(self, block: Deferred[int]) -> None:
        waiting, self._waiting = self._waiting, []
        try:
            self._next = block.result()
        except Exception as error:
            for deferred in waiting:
                deferred.fail(error)
            return
        self._end = self._next + BLOCK_SIZE
        for position, deferred in enumerate(waiting):
            if self.available:
                deferred.resolve(None)
            else:
                self._waiting = waiting[position:]
                self._allocate(BLOCK_SIZE).add_done_callback(self._on_block)
                return
