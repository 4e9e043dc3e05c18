"""Sync a file for many requests with one system call: for all that was written before the call began."""

from __future__ import annotations

from collections.abc import Callable

from runtime.deferred import Deferred


class CoalescedSync:
    """Runs syncs outside of the loop, one at a time. The next sync serves all requests that arrive during one.

    Args:
        run: starts a sync and returns a Deferred, which resolves when all that was written before is on the disk.
        soon: calls its argument at the end of the turn, so that other requests of the turn are served, too. By default
            it calls at once.
    """

    def __init__(
        self, run: Callable[[], Deferred[None]], soon: Callable[[Callable[[], None]], object] = lambda call: call()
    ) -> None:
        self._run = run
        self._soon = soon
        self._waiting: list[Deferred[None]] = []
        self._running = False

    def request(self) -> Deferred[None]:
        """Return a Deferred that resolves once all that is written now is on the disk, and fails as the sync does."""
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
