"""Heads of requests: what stands before that in which a client's request differs from the one it sent before.

A head is decoded once and looked up after that, as long as it comes again. Clients may make up as many as they like,
so only those are learned of which somebody says that they are worth it, and only so many are remembered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar


class Head:
    """What a head says. `unlearned`: its bytes; none once it is remembered."""

    __slots__ = ("unlearned",)

    def __init__(self, unlearned: bytes) -> None:
        self.unlearned = unlearned


H = TypeVar("H", bound=Head)


class Heads(ABC, Generic[H]):
    """The heads of one kind of requests; `capacity` of them are remembered at least, and twice as many at most."""

    __slots__ = ("_capacity", "_earlier", "_latest")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._latest: dict[bytes, H] = {}
        self._earlier: dict[bytes, H] = {}

    @abstractmethod
    def _parse(self, head: bytes) -> H | None:
        """What these bytes say; None when they are no head."""

    def _recall(self, head: bytes) -> H | None:
        """What a head says that is not among the latest."""
        known = self._earlier.get(head)
        if known is None:
            return self._parse(head)
        self._note(head, known)
        return known

    def learn(self, head: H) -> None:
        """Remember one that was parsed just now."""
        self._note(head.unlearned, head)
        head.unlearned = b""

    def age(self) -> bool:
        """Forget those that have not come since this was called last; whether any are left."""
        self._earlier, self._latest = self._latest, {}
        return bool(self._earlier)

    def _note(self, head: bytes, known: H) -> None:
        if len(self._latest) >= self._capacity:
            self.age()
        self._latest[head] = known
