"""What shortcuts learn of the heads of requests, forgotten again once these do not come any more."""

from __future__ import annotations

from typing import Generic, TypeVar

from protocol.shortcuts.prefix_cache import Head, Heads
from runtime.timers import Timers

H = TypeVar("H", bound=Head)

# What has not come for so long, or twice that, is forgotten: its topic or its member may be gone.
_PERIOD_MS = 60_000


class LearnedHeads(Generic[H]):
    """The heads of one kind of requests. No timer runs while none are remembered."""

    def __init__(self, heads: Heads[H], timers: Timers) -> None:
        self._heads = heads
        self._timers = timers
        self._ages = False

    def learn(self, head: H) -> None:
        """Remember one that was parsed just now."""
        self._heads.learn(head)
        if not self._ages:
            self._ages = True
            self._timers.call_later(_PERIOD_MS, self._age)

    def _age(self) -> None:
        self._ages = self._heads.age()
        if self._ages:
            self._timers.call_later(_PERIOD_MS, self._age)
