"""Clients of the simulation: the records that they wrote, and what they know of each."""

from __future__ import annotations


class Write:
    """A record of a client. `outcome`: pending, acked, failed (it is nowhere), or unknown."""

    __slots__ = ("acks_all", "outcome", "value")

    def __init__(self, value: int, acks_all: bool) -> None:
        self.value, self.acks_all = value, acks_all
        self.outcome = "pending"
