"""A gate: so many at a time, the others wait before it in the order in which they came."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class Gate:
    """`waiting` are those that were not let in yet. Belongs to the event loop's thread."""

    def __init__(self, width: int) -> None:
        self.waiting: deque[Callable[[], None]] = deque()
        self._room = width
        self._opens = False

    def enter(self, begin: Callable[[], None]) -> None:
        """Call `begin()` when it is let in: now, or once another has left. Who was let in has to leave."""
        self.waiting.append(begin)
        self._let_in()

    def leave(self) -> None:
        """Make room for the next."""
        self._room += 1
        self._let_in()

    def withdraw(self, begin: Callable[[], None]) -> bool:
        """Whether it was still waiting; it is not let in any more then."""
        if begin not in self.waiting:
            return False
        self.waiting.remove(begin)
        return True

    def _let_in(self) -> None:
        if self._opens:  # who leaves at once does not go deeper
            return
        self._opens = True
        while self._room and self.waiting:
            self._room -= 1
            self.waiting.popleft()()
        self._opens = False
