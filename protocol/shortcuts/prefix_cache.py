"""A cache for heads of requests: the bytes before the part that differs between two requests of a client.

A head is decoded once and looked up as long as it repeats. Clients can invent any number of heads. So only heads that
the caller calls `learn` for are cached, and their number is limited.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar


class Head:
    """A decoded head. `unlearned` are its bytes; empty once it is cached."""

    __slots__ = ("unlearned",)

    def __init__(self, unlearned: bytes) -> None:
        self.unlearned = unlearned


H = TypeVar("H", bound=Head)


class Heads(ABC, Generic[H]):
    """A cache for heads of one kind of request, with between `capacity` and twice as many entries."""

    __slots__ = ("_capacity", "_earlier", "_latest")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._latest: dict[bytes, H] = {}
        self._earlier: dict[bytes, H] = {}

    @abstractmethod
    def _parse(self, head: bytes) -> H | None:
        """Decode a head; return None if the bytes are not one."""

    def _recall(self, head: bytes) -> H | None:
        """Return a head that is not among the latest."""
        known = self._earlier.get(head)
        if known is None:
            return self._parse(head)
        self._note(head, known)
        return known

    def learn(self, head: H) -> None:
        """Cache a head that was just decoded."""
        self._note(head.unlearned, head)
        head.unlearned = b""

    def age(self) -> bool:
        """Evict the heads that were not used since the last call. Return whether any are left."""
        self._earlier, self._latest = self._latest, {}
        return bool(self._earlier)

    def _note(self, head: bytes, known: H) -> None:
        if len(self._latest) >= self._capacity:
            self.age()
        self._latest[head] = known
