"""The truth about one partition of a simulated cluster, which no node knows: what was written and committed."""

from __future__ import annotations

from typing import Any

from metadata.partition_registration import PartitionRegistration
from tests.simulation.log import Entry


class Truth:
    """The truth about one partition, which no node of the cluster knows."""

    def __init__(self) -> None:
        #: By (offset, epoch): value, and the epoch of the record before; by leader epoch: the leader.
        self.written: dict[tuple[int, int], tuple[Any, int | None]] = {}
        self.leaders: dict[int, int] = {}
        self.isr: dict[int, frozenset[int]] = {}
        #: The records that consumers could see, by offset, and the first epoch of leadership that showed each.
        self.committed: dict[int, Entry] = {}
        self.shown: dict[int, int] = {}
        #: Records below are deleted.
        self.deleted = 0
        #: The epochs that began with an unclean election.
        self.unclean: list[int] = []
        self.last: PartitionRegistration | None = None

    def may_be_lost(self, offset: int, epoch: int) -> bool:
        """Whether an unclean election separates an epoch from the one that showed a record."""
        first, last = sorted((self.shown[offset], epoch))
        return any(first < each <= last for each in self.unclean)
