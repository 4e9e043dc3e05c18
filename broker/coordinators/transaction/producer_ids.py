"""Producer ids: never the same twice, also after a crash. Blocks of 1,000 are put aside in the metadata log (KIP-730).

What is left of a block when the broker stops is never given to anyone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from runtime.deferred import Deferred, after

if TYPE_CHECKING:
    from broker.requests.served_api import Reply

BLOCK_SIZE = 1_000


class ProducerIds:
    """Gives out ids from a block, and gets the next block when one is used up.

    Args:
        allocate: puts so many ids aside; resolves to the first of them once that is on the disk.
    """

    def __init__(self, allocate: Callable[[int], Deferred[int]]) -> None:
        self._allocate = allocate
        self._next = 0
        self._end = 0
        self._waiting: list[Deferred[None]] = []

    @property
    def available(self) -> bool:
        """Whether `next` has an id to give."""
        return self._next < self._end

    def next(self) -> int:
        """An id. Only when there is one."""
        assert self._next < self._end
        self._next += 1
        return self._next - 1

    def with_ids(self, serve: Callable[[], Reply]) -> Reply:
        """Call `serve()`, at once or when there are ids."""
        return serve() if self.available else after(self.replenish(), serve)

    def replenish(self) -> Deferred[None]:
        """Resolves when there are ids for everyone who waits; a block is asked for once however many do."""
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
