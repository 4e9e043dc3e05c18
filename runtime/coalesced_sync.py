"""Forcing a file to the disk for many who wait: one call to the system for all that were written before it began."""

from __future__ import annotations

from collections.abc import Callable

from runtime.deferred import Deferred


class CoalescedSync:
    """Syncs off the loop, one at a time; whoever comes while one runs is served by the next.

    Args:
        run: runs the sync elsewhere and resolves when what was written before the call is on the disk.
        soon: calls what it is given when those who come in the same turn have come, too; at once unless told.
    """

    def __init__(
        self, run: Callable[[], Deferred[None]], soon: Callable[[Callable[[], None]], object] = lambda call: call()
    ) -> None:
        self._run = run
        self._soon = soon
        self._waiting: list[Deferred[None]] = []
        self._running = False

    def request(self) -> Deferred[None]:
        """Resolves once all that is written now is on the disk; fails as the sync does."""
        deferred: Deferred[None] = Deferred()
        self._waiting.append(deferred)
        if not self._running:
            self._running = True
            self._soon(self._start)
        return deferred

    def _start(self) -> None:
        served, self._waiting = self._waiting, []
        self._run().add_done_callback(lambda done: self._finish(served, done))

    def _finish(self, served: list[Deferred[None]], done: Deferred[None]) -> None:
        self._running = bool(self._waiting)
        if self._running:
            self._start()
        try:
            done.result()
        except Exception as error:
            for deferred in served:
                deferred.fail(error)
        else:
            for deferred in served:
                deferred.resolve(None)
