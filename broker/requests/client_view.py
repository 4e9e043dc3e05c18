"""The view that clients have of partitions, if several processes of one broker serve them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from protocol.schema import Struct


class ClientView(Protocol):
    """Translates between the broker ids of the metadata and those that clients see."""

    def show(self, topic: str, partitions: Iterable[Struct]) -> None:
        """Replace the broker ids in a topic's partitions of an answer by those that clients see."""

    def other_leader(self, topic: str | None, partition: int) -> tuple[int, int] | None:
        """Return (broker id, leader epoch) of the leader if another process of this broker has the partition."""

    def ids_meant(self, topic: str, partition: int, seen: Sequence[int]) -> tuple[int, ...]:
        """Return the replicas of a partition as the metadata names them, for the broker ids that a client sent."""
