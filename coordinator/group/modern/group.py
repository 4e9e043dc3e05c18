"""The interface that consumer, share and streams groups have in common."""

from __future__ import annotations

from abc import abstractmethod

from coordinator.group.group import Group
from coordinator.group.modern.record import ModernRecord


class ModernGroup(Group):
    """A group that has a record for each member and for each member's assignment."""

    __slots__ = ()

    @abstractmethod
    def __init__(self, group_id: str) -> None: ...

    @property
    def protocol_type(self) -> str:
        return self.group_type

    @property
    def is_empty(self) -> bool:
        return not self.members

    @abstractmethod
    def replay(self, record: ModernRecord[object]) -> None:
        """Apply a record of the group. The shard itself removes a group whose GROUP record is a tombstone."""
