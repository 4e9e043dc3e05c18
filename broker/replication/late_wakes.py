"""Wakes of fetches that come one turn of the event loop later than the appends that cause them."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from runtime.purgatory import Purgatory


class LateWakes:
    """Lets one more turn of the loop pass before fetches are woken.

    A producer sends several requests one after the other. Woken by the first one, followers would fetch it alone, and
    the rest would wait for another round of them. After one more turn, which does not sleep, the rest is here.

    Args:
        call_soon: that of the event loop.
    """

    __slots__ = ("_call_soon", "_purgatory", "_touched")

    def __init__(self, purgatory: Purgatory, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._purgatory = purgatory
        self._call_soon = call_soon
        self._touched: dict[Hashable, None] = {}

    def wake(self, key: Hashable) -> None:
        """Try the fetches that wait for `key` again at the end of the next turn."""
        if key in self._purgatory and key not in self._touched:
            if not self._touched:
                self._call_soon(self._on_turn_over)
            self._touched[key] = None

    def _on_turn_over(self) -> None:
        """Sockets that are ready by now are served before the next call."""
        self._call_soon(self._check)

    def _check(self) -> None:
        touched, self._touched = self._touched, {}
        for key in touched:
            self._purgatory.check_soon(key)
