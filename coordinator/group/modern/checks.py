"""What heartbeats of all modern groups must be like; what is not is Refused, in Kafka's words, which people see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar

from coordinator.group.refused import Refused
from protocol.errors import ErrorCode

ABANDON = "The member must abandon all its partitions and rejoin."
#: What Java's trim takes away: all characters up to the space.
_JAVA_BLANKS = "".join(map(chr, range(33)))

M = TypeVar("M", covariant=True)


class HasMembers(Protocol[M]):
    """A group, as far as its members go."""

    group_id: str

    @property
    def members(self) -> Mapping[str, M]: ...


def bad_request(message: str) -> Refused:
    """A request that cannot be meant."""
    return Refused(ErrorCode.INVALID_REQUEST, message)


def check_not_blank(text: str | None, field: str) -> None:
    """INVALID_REQUEST for a text of nothing but blanks; None is fine."""
    if text is not None and text[:1] <= " " and not text.strip(_JAVA_BLANKS):
        raise bad_request(f"{field} can't be empty.")


def member_of(group: HasMembers[M], member_id: str) -> M:
    """The member of that id, or UNKNOWN_MEMBER_ID."""
    member = group.members.get(member_id)
    if member is None:
        message = f"Member {member_id} is not a member of group {group.group_id}."
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, message)
    return member
