"""Checks that the heartbeats of all modern groups share.

A request that fails one raises Refused with Kafka's message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar

from coordinator.group.refused import Refused
from protocol.error_codes import ErrorCode

#: Epochs with a special meaning in requests; the last one also marks a static member that left temporarily.
JOINING_EPOCH = 0
LEAVING_EPOCH = -1
STATIC_LEAVE_EPOCH = -2

ABANDON = "The member must abandon all its partitions and rejoin."
#: The characters that Java's `trim` removes: all up to the space.
_JAVA_BLANKS = "".join(map(chr, range(33)))

M = TypeVar("M", covariant=True)
S = TypeVar("S", bound="StaticMember")


class StaticMember(Protocol):
    """A member that may have an instance id (KIP-345)."""

    @property
    def member_id(self) -> str: ...
    @property
    def epoch(self) -> int: ...


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


def check_instance_is_known(member: S | None, instance_id: str) -> S:
    """Return the member. Raises Refused UNKNOWN_MEMBER_ID if no member has the instance id."""
    if member is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    return member


def check_instance_is_free(holder: StaticMember, member_id: str, instance_id: str) -> None:
    """Raise Refused UNRELEASED_INSTANCE_ID unless the holder of the instance id has left temporarily."""
    if holder.epoch != STATIC_LEAVE_EPOCH:
        raise Refused(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id is"
            f" owned by {holder.member_id} member.",
        )


def check_instance_is_ours(holder: StaticMember, member_id: str, instance_id: str) -> None:
    """Raise Refused FENCED_INSTANCE_ID if another member holds the instance id."""
    if holder.member_id != member_id:
        raise Refused(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {holder.member_id}.",
        )
