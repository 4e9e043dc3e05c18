"""The metadata of a partition: its replicas, its leader, and its epochs."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from protocol.schema import Struct

NO_LEADER = -1

# Ids that stand for no log directory (KIP-858); Kafka's DirectoryId reserves the first hundred.
MIGRATING_DIRECTORY = bytes(16)  # unknown: the record, or the broker's registration, is older than directory ids
UNASSIGNED_DIRECTORY = bytes(15) + b"\x01"  # the broker has not reported in which of its directories the replica is
LOST_DIRECTORY = bytes(15) + b"\x02"  # the log directory of the replica failed, or it is unknown which one it was
_RESERVED = range(100)

EPOCHS = slice(3, 5)  # the fields of a PartitionRegistration that do not tell its kind


class LeaderRecoveryState(IntEnum):
    """Whether the leader still has to recover after an unclean election (KIP-704)."""

    RECOVERED = 0
    RECOVERING = 1


class PartitionRegistration(NamedTuple):
    """A partition. All lists have broker ids; `directories` is parallel to `replicas` (empty before 3.7-IV2)."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[bytes, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] = ()  # out of sync, but known to have all committed records (KIP-966)
    last_known_elr: tuple[int, ...] = ()
    leader_recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED

    @property
    def has_preferred_leader(self) -> bool:
        """Whether the first replica leads."""
        return self.leader == self.replicas[0]

    @property
    def is_reassigning(self) -> bool:
        """Whether replicas are being added or removed (KIP-455)."""
        return bool(self.removing_replicas or self.adding_replicas)

    def relies_on(self, broker_id: int) -> bool:
        """Return whether the broker may lead because it is known to have the committed records, or led last."""
        return broker_id in self.isr or broker_id in self.eligible_leader_replicas or broker_id in self.last_known_elr

    def directory_of(self, broker_id: int) -> bytes:
        """Return the id of the log directory with the broker's replica; MIGRATING_DIRECTORY if there is none."""
        for replica, directory in zip(self.replicas, self.directories, strict=False):
            if replica == broker_id:
                return directory
        return MIGRATING_DIRECTORY


def is_reserved_directory(directory: bytes) -> bool:
    """Return whether an id stands for no log directory: it is unassigned, lost or migrating."""
    return int.from_bytes(directory) in _RESERVED


def registration_of(value: Struct) -> PartitionRegistration:
    """Return the registration in a PartitionRecord."""
    return PartitionRegistration(
        replicas=tuple(value.replicas),
        isr=tuple(value.isr),
        leader=value.leader,
        leader_epoch=value.leader_epoch,
        partition_epoch=value.partition_epoch,
        directories=tuple(value.directories),
        removing_replicas=tuple(value.removing_replicas),
        adding_replicas=tuple(value.adding_replicas),
        eligible_leader_replicas=tuple(value.eligible_leader_replicas or ()),
        last_known_elr=tuple(value.last_known_elr or ()),
        leader_recovery_state=LeaderRecoveryState(value.leader_recovery_state),
    )
