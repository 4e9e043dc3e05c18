"""Purgatory: requests that wait for something to happen, with a deadline.

A waiter is kept under every key it waits for (a partition, a group); whoever changes what stands behind a key checks
that key, and only its waiters are asked whether they are content now. The name is Kafka's
(DelayedOperationPurgatory).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable

from runtime.timers import Timer, Timers
from runtime.turn import Turn

log = logging.getLogger(__name__)


class Waiter:
    """One waiting request; `cancel` takes it out, as when its client has hung up."""

    __slots__ = ("_keys", "_on_timeout", "_purgatory", "_timer", "_try_complete")

    def __init__(
        self,
        purgatory: Purgatory,
        keys: tuple[Hashable, ...],
        try_complete: Callable[[], bool],
        on_timeout: Callable[[], None],
    ) -> None:
        self._purgatory: Purgatory | None = purgatory
        self._keys = keys
        self._try_complete = try_complete
        self._on_timeout = on_timeout
        self._timer: Timer | None = None

    @property
    def active(self) -> bool:
        """Whether it still waits."""
        return self._purgatory is not None

    def cancel(self) -> None:
        """Stop waiting: neither callback is called any more."""
        if self._purgatory is not None:
            self._purgatory._remove(self)

    def _expire(self) -> None:
        self._timer = None
        self.cancel()
        self._on_timeout()


class Purgatory:
    """Waiters by key, and their deadlines."""

    __slots__ = ("_all", "_timers", "_touched", "_turn", "_waiters")

    def __init__(self, timers: Timers, turn: Turn) -> None:
        self._timers = timers
        self._turn = turn
        self._waiters: dict[Hashable, dict[Waiter, None]] = {}
        self._touched: dict[Hashable, None] = {}
        self._all: dict[Waiter, None] = {}

    def __len__(self) -> int:
        """How many wait."""
        return len(self._all)

    def watch(
        self,
        keys: Iterable[Hashable],
        try_complete: Callable[[], bool],
        deadline_ms: int | None,
        on_timeout: Callable[[], None],
    ) -> Waiter:
        """Wait until `try_complete()` says True on a check of one of `keys`, or until the deadline.

        `try_complete` has done its work (resolved its Deferred) when it answers True, and is then not asked again. It
        is not called here: a caller tries first and waits only if that failed.

        Args:
            keys: what to be asked about again; none is allowed, then only the deadline ends it.
            deadline_ms: on `Clock.monotonic_ms()`; None waits for ever.
            on_timeout: called at the deadline, with the waiter already gone.
        """
        waiter = Waiter(self, tuple(keys), try_complete, on_timeout)
        for key in waiter._keys:
            at_key = self._waiters.get(key)
            if at_key is None:
                at_key = self._waiters[key] = {}
            at_key[waiter] = None
        if deadline_ms is not None:
            waiter._timer = self._timers.call_at(deadline_ms, waiter._expire)
        self._all[waiter] = None
        return waiter

    def check(self, key: Hashable) -> int:
        """Ask all that wait for `key`, now; how many were content. Costs a dict look-up where nobody waits."""
        at_key = self._waiters.get(key)
        if at_key is None:
            return 0
        completed = 0
        for waiter in list(at_key):
            # An earlier one of this list may have cancelled or completed it in passing.
            if waiter._purgatory is None:
                continue
            try:
                content = waiter._try_complete()
            except Exception:  # it has its deadline left; the others are not to miss their turn
                log.exception("A request that waits could not be tried again")
                continue
            if content:
                completed += 1
                if waiter._purgatory is not None:
                    self._remove(waiter)
        return completed

    def check_soon(self, key: Hashable) -> None:
        """`check` at the end of this turn, once however often it is called: what appends use."""
        if key in self._waiters and key not in self._touched:
            if not self._touched:
                self._turn.at_end(self._check_touched)
            self._touched[key] = None

    def expire_all(self) -> None:
        """Answer everybody as if the deadlines had come: what a shutdown does first."""
        for waiter in list(self._all):
            if waiter.active:
                waiter.cancel()
                try:
                    waiter._on_timeout()
                except Exception:
                    log.exception("A request that waited could not be answered")

    def _check_touched(self) -> None:
        touched, self._touched = self._touched, {}
        for key in touched:
            self.check(key)

    def _remove(self, waiter: Waiter) -> None:
        waiter._purgatory = None
        del self._all[waiter]
        if waiter._timer is not None:
            waiter._timer.cancel()
            waiter._timer = None
        for key in waiter._keys:
            at_key = self._waiters.get(key)
            if at_key is not None:
                at_key.pop(waiter, None)
                if not at_key:
                    del self._waiters[key]
