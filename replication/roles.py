"""A broker's role in a partition, and what a change of the metadata does to it. Kafka's TopicsDelta.localChanges.

`change_of` is the one place that decides whether a broker leads, follows, or removes its replica. It is total: any two
registrations have a change, also those that a snapshot leads from one to the other, where epochs are skipped.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from metadata.partition_registration import NO_LEADER, PartitionRegistration


class Role(Enum):
    """The role of a broker in a partition."""

    ABSENT = auto()  # it has no replica
    FOLLOWING = auto()  # it has a replica, and another broker leads or nobody does
    LEADING = auto()


class Action(Enum):
    """The actions that a change asks of a broker."""

    NOTHING = auto()
    LEAD = auto()  # begin an epoch of leadership
    UPDATE = auto()  # lead or follow as before, with another ISR, other replicas or another partition epoch
    FOLLOW = auto()  # begin to follow in an epoch, or to wait for a leader
    REMOVE = auto()  # its replica is no longer assigned, and its log is deleted
    DELETE = auto()  # the partition is deleted, and so is its log


class RoleChange(NamedTuple):
    """A change of one partition for one broker.

    Attributes:
        leader: whom to follow, NO_LEADER if nobody leads; this broker itself if it leads.
        directory: the id of the log directory that the metadata assigns to the replica, if that is new; else None.
    """

    action: Action
    leader: int = NO_LEADER
    leader_epoch: int = -1
    directory: bytes | None = None


def role_of(registration: PartitionRegistration | None, node_id: int) -> Role:
    """Return the role of a broker; `registration` is None for a partition that does not exist."""
    if registration is None or node_id not in registration.replicas:
        return Role.ABSENT
    return Role.LEADING if registration.leader == node_id else Role.FOLLOWING


def change_of(old: PartitionRegistration | None, new: PartitionRegistration | None, node_id: int) -> RoleChange:
    """Return what a broker does when the registration of a partition changes. None stands for no partition.

    A new leader epoch begins the role again even with the same leader: the controller has fenced what was in flight.
    An older epoch cannot come from a later state of the metadata; it changes nothing, so that a role's epoch never
    falls.
    """
    before, after = role_of(old, node_id), role_of(new, node_id)
    if after is Role.ABSENT or new is None:
        if before is Role.ABSENT:
            return RoleChange(Action.NOTHING)
        return RoleChange(Action.DELETE if new is None else Action.REMOVE)
    directory = new.directory_of(node_id)
    if old is None or before is Role.ABSENT:
        return _begin(after, new, directory)
    if new.leader_epoch < old.leader_epoch or new.partition_epoch < old.partition_epoch:
        return RoleChange(Action.NOTHING)
    moved = directory if directory != old.directory_of(node_id) else None
    if before is not after or new.leader_epoch != old.leader_epoch or new.leader != old.leader:
        return _begin(after, new, moved)
    action = Action.NOTHING if new == old else Action.UPDATE
    return RoleChange(action, new.leader, new.leader_epoch, moved)


def _begin(role: Role, new: PartitionRegistration, directory: bytes | None) -> RoleChange:
    action = Action.LEAD if role is Role.LEADING else Action.FOLLOW
    return RoleChange(action, new.leader, new.leader_epoch, directory)
