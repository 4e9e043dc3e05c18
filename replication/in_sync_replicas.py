"""The in-sync replicas (ISR) of a partition as its leader knows them: committed by the controller, or proposed."""

from __future__ import annotations

from typing import NamedTuple


class InSyncReplicas(NamedTuple):
    """Committed and proposed ISR.

    - `committed`: what the metadata log says.
    - `proposed`: what the leader has asked the controller for, which may or may not take place; None if it has not.
    - `partition_epoch`: of the committed ISR; the controller raises it with each change of the partition.

    Until the controller has answered, a record must be on the replicas of both: the controller may already elect a
    leader from either. So `maximal` counts for the high watermark and for acks=all (KIP-497).
    """

    committed: frozenset[int]
    partition_epoch: int
    proposed: frozenset[int] | None = None

    @property
    def maximal(self) -> frozenset[int]:
        return self.committed if self.proposed is None else self.committed | self.proposed

    @property
    def is_pending(self) -> bool:
        return self.proposed is not None

    def propose(self, isr: frozenset[int]) -> InSyncReplicas:
        return self._replace(proposed=isr)

    def withdraw(self) -> InSyncReplicas:
        """The controller has refused the proposal."""
        return self._replace(proposed=None)

    def follow(self, isr: frozenset[int], partition_epoch: int) -> InSyncReplicas:
        """Take over an ISR of the metadata log, unless it is older than the known one or the same.

        A record of the same epoch says nothing about a proposal that is still pending. After a later one the controller
        refuses the proposal, or the record is its result.
        """
        return InSyncReplicas(isr, partition_epoch) if partition_epoch > self.partition_epoch else self

    def answered(self, isr: frozenset[int], partition_epoch: int, proposed_at: int) -> InSyncReplicas:
        """Take over the ISR of an AlterPartition response to the proposal made at the partition epoch `proposed_at`.

        It may come before or after the record of the same change. After it, the next proposal may be pending already,
        and the response says nothing about that one. If the epoch is that of the proposal, the controller had nothing
        to change.
        """
        is_news = partition_epoch > self.partition_epoch
        is_same = partition_epoch == self.partition_epoch == proposed_at
        return InSyncReplicas(isr, partition_epoch) if is_news or is_same else self
