"""The interface that all kinds of groups have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import ClassVar

from coordinator.group.records import CommittedOffset, StoredRecord
from protocol.error_codes import ErrorCode


class Group(ABC):
    """A group: its members and its state. Committed offsets are kept by the shard."""

    __slots__ = ()

    group_id: str
    #: The name of the kind in ListGroups.
    group_type: ClassVar[str]
    #: Whether members commit offsets to the group.
    stores_offsets: ClassVar[bool] = True
    #: Whether the group and its offsets expire. Groups of other kinds stay until an administrator deletes them.
    expires: ClassVar[bool] = True
    #: Whether the tombstone of a classic group of the same id removes this group, too.
    is_removed_with_classic: ClassVar[bool] = True

    @property
    @abstractmethod
    def protocol_type(self) -> str | None:
        """The protocol type in ListGroups. None: no member has joined the group yet."""

    @property
    @abstractmethod
    def state(self) -> Enum:
        """The state; its value is the name that clients see."""

    @property
    @abstractmethod
    def members(self) -> Mapping[str, object]:
        """The members by member id."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether the group has no members, and none that are joining."""

    @property
    def is_simple(self) -> bool:
        """Whether the group only stores offsets, so that a group of any kind may replace it."""
        return False

    @property
    def may_become_classic(self) -> bool:
        """Whether a member of the classic protocol may replace this group by a classic one."""
        return self.is_empty

    def ids_with_deadlines(self) -> Iterable[str]:
        """Return the ids of all members, and of clients that are joining, that may have a deadline."""
        return list(self.members)

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether members read the topic, so that its offsets may be neither deleted nor expired."""

    def retention_start(self) -> Callable[[CommittedOffset], int] | None:
        """Return the function that gives the start of an offset's retention, in ms since 1970.

        None: the group's offsets do not expire while the group is in its state (KIP-211).
        """
        return _commit_time

    def check_offset_delete(self) -> ErrorCode:
        """Return NONE, or the error of an OffsetDelete request: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP."""
        return ErrorCode.NONE if self.stores_offsets else ErrorCode.GROUP_ID_NOT_FOUND

    @abstractmethod
    def tombstones(self) -> Sequence[StoredRecord]:
        """Return the records that delete the group, in the order in which they are written."""


def _commit_time(committed: CommittedOffset) -> int:
    return committed.commit_timestamp_ms
