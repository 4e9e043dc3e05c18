"""A partition that this broker follows: consumers may read it (KIP-392), and its log may move between directories."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.replicas.partition import OfflineLog, Partition

if TYPE_CHECKING:
    from broker.replication.followed_log import LocalFollowedLog
    from metadata.partition_registration import PartitionRegistration
    from storage.log.partition_log import PartitionLog


class FollowedPartition(Partition):
    """It is not in the registry of partitions, so most requests of clients get NOT_LEADER_OR_FOLLOWER.

    An object stands for the time between two roles of this broker. `leave` ends it, and wakes waiting consumers.

    Args:
        followed: the log, which a fetcher of this broker writes.
        wake: called when more records are committed, or the role ends.
    """

    __slots__ = ("followed",)

    def __init__(
        self,
        followed: LocalFollowedLog,
        registration: PartitionRegistration,
        *,
        internal: bool,
        wake: Callable[[Partition], None],
    ) -> None:
        super().__init__(
            followed.log,
            leader_id=registration.leader,
            leader_epoch=registration.leader_epoch,
            replicas=registration.replicas,
            isr=registration.isr,
            internal=internal,
            wake=wake,
        )
        self.followed = followed
        followed.on_advance = self._advanced

    def _advanced(self) -> None:
        self._wake(self)

    def follow(self, registration: PartitionRegistration) -> None:
        """Take over another leader, epoch, ISR or other replicas."""
        self.leader_id, self.leader_epoch = registration.leader, registration.leader_epoch
        self.replicas, self.isr = registration.replicas, registration.isr
        self._wake(self)

    def note_epoch(self, log: PartitionLog) -> None:
        """Epochs come with the leader's records."""

    def swap_log(self, log: PartitionLog) -> None:
        self.log = self.followed.log = log
        self._wake(self)

    def set_offline(self, offline: OfflineLog) -> None:
        super().set_offline(offline)
        self._wake(self)
