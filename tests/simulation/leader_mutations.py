"""Faults of leaders and of their changes of the ISR."""

from __future__ import annotations

from typing import Any

from protocol.error_codes import ErrorCode
from replication import isr_changes
from replication.follower import Follower
from replication.in_sync_replicas import InSyncReplicas
from replication.isr_changes import IsrChanges, Outcome
from replication.leading import LeaderState
from tests.simulation.leaders import Leaders
from tests.simulation.mutation import MUTATIONS, mutation


def _refusal_of_none(self: Leaders, leader: Any, epoch: int) -> int:
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if leader is None else ErrorCode.NONE


mutation(
    "no-fencing-of-fetches",
    "a leader does not compare the leader epochs of fetches (KIP-320)",
    (Leaders, "_refusal"),
    is_rare=True,
)(_refusal_of_none)


@mutation(
    "isr-lags-at-election",
    "a new leader has no times at which its followers were caught up",
    (LeaderState, "_set_replicas"),
)
def _set_replicas(self: LeaderState, replicas: Any, now_ms: int) -> None:
    self.replicas = tuple(replicas)
    known = self.followers
    self.followers = {
        each: known.get(each) or Follower(each, caught_up_ms=-(1 << 62))
        for each in self.replicas
        if each != self.node_id
    }


@mutation(
    "older-isr-of-record", "an older record replaces the ISR of a response", (InSyncReplicas, "follow"), is_rare=True
)
def _follow(self: InSyncReplicas, isr: Any, partition_epoch: int) -> InSyncReplicas:
    return InSyncReplicas(isr, partition_epoch)


@mutation(
    "older-isr-of-response",
    "an older response replaces the ISR of a record",
    (InSyncReplicas, "answered"),
    is_rare=True,
)
def _answered(self: InSyncReplicas, isr: Any, partition_epoch: int, proposed_at: int) -> InSyncReplicas:
    return InSyncReplicas(isr, partition_epoch)


@mutation(
    "late-answer-ends-proposal",
    "an answer that comes after its record ends the next proposal (KIP-497)",
    (InSyncReplicas, "answered"),
    is_rare=True,
)
def _answered_late(self: InSyncReplicas, isr: Any, partition_epoch: int, proposed_at: int) -> InSyncReplicas:
    return InSyncReplicas(isr, partition_epoch) if partition_epoch >= self.partition_epoch else self


mutation(
    "pending-isr-ignored",
    "the high watermark ignores a proposed member of the ISR (KIP-497)",
    (InSyncReplicas, "maximal"),
    is_rare=True,
)(property(lambda self: self.committed))
mutation(
    "pending-shrink-counts",
    "the high watermark ignores a member that may leave the ISR (KIP-497)",
    (InSyncReplicas, "maximal"),
)(property(lambda self: self.committed if self.proposed is None else self.proposed))


mutation(
    "version-error-is-refusal",
    "INVALID_UPDATE_VERSION takes a proposal back, which may be committed",
    (isr_changes, "_OUTCOMES"),
    is_rare=True,
)({**isr_changes._OUTCOMES, ErrorCode.INVALID_UPDATE_VERSION: Outcome.REFUSED})


@mutation(
    "isr-changes-lost",
    "a request to change the ISR that failed is not sent again",
    (IsrChanges, "failed"),
    is_rare=True,
)
def _changes_lost(self: IsrChanges) -> None:
    self._sent = {}


@mutation(
    "refusal-stays-pending",
    "a refused proposal holds the high watermark back for ever (KAFKA-15021)",
    (LeaderState, "refused"),
    is_rare=True,
)
def _refused(self: LeaderState, partition_epoch: int, leader_end: int, now_ms: int) -> bool:
    return False


@mutation(
    "late-fetch-counts",
    "a fetch from before a broker's restart counts (KIP-903)",
    (LeaderState, "fetched"),
    is_rare=True,
)
def _fetched(self: LeaderState, broker_id: int, epoch: int, offset: int, start: int, end: int, now_ms: int) -> bool:
    self.followers[broker_id].fetched(epoch, offset, start, end, now_ms)
    return self.advance(end, now_ms)


@mutation(
    "epochs-of-image",
    "the ISR is proposed with broker epochs of the image, not of fetches (KIP-903)",
    (LeaderState, "_epoch_of"),
    is_rare=True,
)
def _epoch_of(self: LeaderState, broker_id: int) -> int:
    epoch = self._brokers.broker_epoch(broker_id)
    return -1 if epoch is None else epoch


MUTATIONS[-1] = MUTATIONS[-1]._replace(
    patches=(
        *MUTATIONS[-1].patches,
        (LeaderState, "fetched", _fetched),
        (LeaderState, "is_eligible", lambda self, follower: self._brokers.broker_epoch(follower.broker_id) is not None),
    )
)


@mutation("fenced-replica-joins", "a fenced broker is proposed for the ISR", (LeaderState, "is_eligible"))
def _is_eligible(self: LeaderState, follower: Follower) -> bool:
    return True


mutation(
    "commit-below-minimum",
    "the high watermark moves below min.insync.replicas (KIP-966)",
    (LeaderState, "has_enough_replicas"),
    is_rare=True,
)(property(lambda self: True))


_advance = LeaderState.advance


@mutation(
    "high-watermark-falls",
    "the high watermark follows a follower that restarts",
    (LeaderState, "advance"),
    is_rare=True,
)
def _advance_back(self: LeaderState, leader_end: int, now_ms: int) -> bool:
    before, self.high_watermark = self.high_watermark, -1
    moved = _advance(self, leader_end, now_ms)
    if not moved:
        self.high_watermark = before
    return moved


@mutation(
    "new-replica-is-caught-up",
    "a follower that has not fetched does not hold the high watermark back",
    (LeaderState, "advance"),
)
def _advance_known(self: LeaderState, leader_end: int, now_ms: int) -> bool:
    ends = [
        each.log_end_offset
        for each in self.followers.values()
        if each.broker_id in self.isr.maximal and each.log_end_offset >= 0
    ]
    committed = min([leader_end, *ends])
    if not self.has_enough_replicas or committed <= self.high_watermark:
        return False
    self.high_watermark = committed
    return True


@mutation(
    "expansion-below-epoch-start",
    "a follower joins the ISR that lacks records before the epoch",
    (LeaderState, "expansion"),
    is_rare=True,
)
def _expansion(self: LeaderState, broker_id: int) -> Any:
    follower = self.followers[broker_id]
    if self.isr.is_pending or broker_id in self.isr.committed or not self.is_eligible(follower):
        return None
    return self._propose(self.isr.committed | {broker_id}) if follower.log_end_offset >= self.high_watermark else None


@mutation(
    "expansion-below-high-watermark",
    "a follower joins the ISR that lacks committed records",
    (LeaderState, "expansion"),
)
def _expansion_early(self: LeaderState, broker_id: int) -> Any:
    follower = self.followers[broker_id]
    if self.isr.is_pending or broker_id in self.isr.committed or not self.is_eligible(follower):
        return None
    return self._propose(self.isr.committed | {broker_id}) if follower.log_end_offset >= self.start_offset else None
