"""Checks that the heartbeats of all modern groups share.

A request that fails one raises Refused with Kafka's message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar

from coordinator.group.refused import Refused
from protocol.error_codes import ErrorCode

ABANDON = "The member must abandon all its partitions and rejoin."
#: The characters that Java's `trim` removes: all up to the space.
_JAVA_BLANKS = "".join(map(chr, range(33)))

M = TypeVar("M", covariant=True)


class HasMembers(Protocol[M]):
    """A group with members by id."""

    group_id: str

    @property
    def members(self) -> Mapping[str, M]: ...


def bad_request(message: str) -> Refused:
    """Return an INVALID_REQUEST error with this message."""
    return Refused(ErrorCode.INVALID_REQUEST, message)


def check_not_blank(text: str | None, field: str) -> None:
    """Raise Refused INVALID_REQUEST for a text of blanks only; None is allowed."""
    if text is not None and text[:1] <= " " and not text.strip(_JAVA_BLANKS):
        raise bad_request(f"{field} can't be empty.")


def member_of(group: HasMembers[M], member_id: str) -> M:
    """Return the member of that id. Raises Refused: UNKNOWN_MEMBER_ID."""
    member = group.members.get(member_id)
    if member is None:
        message = f"Member {member_id} is not a member of group {group.group_id}."
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, message)
    return member
