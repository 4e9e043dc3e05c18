"""What the metadata says of one partition: who has copies of it, who leads it, and how often that changed."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from protocol.schema import Struct

NO_LEADER = -1

UNASSIGNED_DIRECTORY = bytes(
    16
)  # the broker has not said yet in which of its log directories the replica lies (KIP-858)
LOST_DIRECTORY = bytes(15) + b"\x01"  # the replica lay in a log directory that failed


class LeaderRecoveryState(IntEnum):
    """Whether the leader still has to be reconciled after an unclean election (KIP-704)."""

    RECOVERED = 0
    RECOVERING = 1


class PartitionRegistration(NamedTuple):
    """One partition. Broker ids throughout; `directories` runs parallel to `replicas` (empty before 3.7-IV2)."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[bytes, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] = ()  # out of sync, but known to hold all that is committed (KIP-966)
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

    def directory_of(self, broker_id: int) -> bytes:
        """The log directory's id in which the broker has its replica; UNASSIGNED_DIRECTORY where nobody said."""
        for replica, directory in zip(self.replicas, self.directories, strict=False):
            if replica == broker_id:
                return directory
        return UNASSIGNED_DIRECTORY


def registration_of(value: Struct) -> PartitionRegistration:
    """What a PartitionRecord says."""
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
