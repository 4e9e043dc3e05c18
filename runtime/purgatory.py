"""Purgatory: requests that wait for an event, with a deadline.

A waiter is registered under every key that it waits for (a partition, a group). Code that changes the state of a key
checks the key, and only the waiters of this key are tried again. The name is Kafka's (DelayedOperationPurgatory).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable

from runtime.timers import Timer, Timers
from runtime.turn import Turn

log = logging.getLogger(__name__)


class Waiter:
    """A waiting request; `cancel` removes it, for example when its client has disconnected."""

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
    """Waiters by key, with their deadlines."""

    __slots__ = ("_all", "_timers", "_touched", "_turn", "_waiters")

    def __init__(self, timers: Timers, turn: Turn) -> None:
        self._timers = timers
        self._turn = turn
        self._waiters: dict[Hashable, dict[Waiter, None]] = {}
        self._touched: dict[Hashable, None] = {}
        self._all: dict[Waiter, None] = {}

    def __len__(self) -> int:
        """The number of waiters."""
        return len(self._all)

    def __contains__(self, key: Hashable) -> bool:
        """Whether a request waits for `key`."""
        return key in self._waiters

    def watch(
        self,
        keys: Iterable[Hashable],
        try_complete: Callable[[], bool],
        deadline_ms: int | None,
        on_timeout: Callable[[], None],
    ) -> Waiter:
        """Wait until `try_complete()` returns True during a check of one of `keys`, or until the deadline.

        `try_complete` completes the request (resolves its Deferred) before it returns True, and is then not called
        again. `watch` does not call it: the caller tries first, and waits only if that fails.

        Args:
            keys: the keys to wait for; without keys, only the deadline ends the wait.
            deadline_ms: on `Clock.monotonic_ms()`; None: no deadline.
            on_timeout: called at the deadline, after the waiter was removed.
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
        """Try all waiters of `key` now, and return how many completed.

        Costs one dictionary look-up if there is none.
        """
        at_key = self._waiters.get(key)
        if at_key is None:
            return 0
        completed = 0
        for waiter in list(at_key):
            # Another waiter of this list may have cancelled or completed it meanwhile.
            if waiter._purgatory is None:
                continue
            try:
                content = waiter._try_complete()
            except Exception:  # the waiter keeps its deadline, and the others are still tried
                log.exception("A waiting request could not be tried again")
                continue
            if content:
                completed += 1
                if waiter._purgatory is not None:
                    self._remove(waiter)
        return completed

    def check_soon(self, key: Hashable) -> None:
        """Call `check` once at the end of this turn, however often this is called. Appends use it."""
        if key in self._waiters and key not in self._touched:
            if not self._touched:
                self._turn.at_end(self._check_touched)
            self._touched[key] = None

    def expire_all(self) -> None:
        """Time all waiters out: the first step of a shutdown."""
        for waiter in list(self._all):
            if waiter.active:
                waiter.cancel()
                try:
                    waiter._on_timeout()
                except Exception:
                    log.exception("A waiting request could not be timed out")

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
