"""A gate: admit a number of tasks at a time; the others wait in the order of their arrival."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class Gate:
    """Admits `width` tasks at a time. `waiting` are those not admitted yet. Used on the event loop's thread only."""

    def __init__(self, width: int) -> None:
        self.waiting: deque[Callable[[], None]] = deque()
        self._room = width
        self._opens = False

    def enter(self, begin: Callable[[], None]) -> None:
        """Call `begin()` when the task is admitted: now, or once another has left.

        Each admitted task has to call `leave`.
        """
        self.waiting.append(begin)
        self._let_in()

    def leave(self) -> None:
        """Make room for the next task."""
        self._room += 1
        self._let_in()

    def withdraw(self, begin: Callable[[], None]) -> bool:
        """Return whether the task was still waiting; then it is not admitted any more."""
        if begin not in self.waiting:
            return False
        self.waiting.remove(begin)
        return True

    def _let_in(self) -> None:
        if self._opens:  # a task that leaves at once does not recurse
            return
        self._opens = True
        while self._room and self.waiting:
            self._room -= 1
            self.waiting.popleft()()
        self._opens = False
