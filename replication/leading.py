"""A partition that this broker leads: where its followers are, who is in sync, and what is committed.

The names are those of Kafka's Partition and Replica. All times are ms of one monotonic clock.

    high watermark = the lowest log end of the maximal ISR and of those who have caught up and may join it

- A follower's fetch at an offset says that it has everything below. It has caught up if it has all that the leader had
  at its previous fetch (KIP-16), so a steady stream of appends does not push it out.
- The ISR shrinks by a follower that has not caught up for replica.lag.time.max.ms, and expands by one that has all
  committed records, and all from the beginning of this leader's epoch.
- Only AlterPartition changes the ISR. One proposal at a time; see InSyncReplicas.
- While fewer replicas are in sync than min.insync.replicas, nothing is committed (KIP-966).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from replication.follower import NEVER_MS, UNKNOWN_BROKER_EPOCH, Follower
from replication.in_sync_replicas import InSyncReplicas


class Brokers(Protocol):
    """The brokers that are registered, by the metadata."""

    def broker_epoch(self, broker_id: int) -> int | None:
        """Return the epoch of a registered broker that is neither fenced nor in its controlled shutdown, else None."""


def is_current(brokers: Brokers, broker_id: int, broker_epoch: int) -> bool:
    """Return whether a broker has not registered again since it sent a fetch with this epoch (KIP-903)."""
    registered = brokers.broker_epoch(broker_id)
    return registered is None or broker_epoch == UNKNOWN_BROKER_EPOCH or broker_epoch >= registered


class Proposal(NamedTuple):
    """An ISR to ask the controller for: broker ids with the epochs that the leader knows, -1 if it knows none."""

    isr: tuple[tuple[int, int], ...]
    leader_epoch: int
    partition_epoch: int


class LeaderState:
    """One epoch of leadership.

    Args:
        start_offset: the log end when the epoch began. A new leader's high watermark may be below it.
        min_in_sync_replicas: min.insync.replicas of the topic. It may change at any time.
        max_lag_ms: replica.lag.time.max.ms.
        now_ms: all members of the ISR count as caught up now. Otherwise the first check would shrink the ISR to the
            leader before its followers have found it.
    """

    __slots__ = (
        "_brokers",
        "followers",
        "high_watermark",
        "isr",
        "leader_epoch",
        "max_lag_ms",
        "min_in_sync_replicas",
        "node_id",
        "replicas",
        "start_offset",
    )

    def __init__(
        self,
        node_id: int,
        brokers: Brokers,
        *,
        replicas: Iterable[int],
        isr: Iterable[int],
        leader_epoch: int,
        partition_epoch: int,
        start_offset: int,
        high_watermark: int,
        min_in_sync_replicas: int,
        max_lag_ms: int,
        now_ms: int,
    ) -> None:
        self.node_id = node_id
        self._brokers = brokers
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        self.high_watermark = high_watermark
        self.min_in_sync_replicas = min_in_sync_replicas
        self.max_lag_ms = max_lag_ms
        self.isr = InSyncReplicas(frozenset(isr), partition_epoch)
        self.replicas: tuple[int, ...] = ()
        self.followers: dict[int, Follower] = {}
        self._set_replicas(replicas, now_ms)

    def _set_replicas(self, replicas: Iterable[int], now_ms: int) -> None:
        """Keep what is known of the followers that stay."""
        self.replicas = tuple(replicas)
        known = self.followers
        self.followers = {
            each: known.get(each) or Follower(each, caught_up_ms=now_ms if each in self.isr.committed else NEVER_MS)
            for each in self.replicas
            if each != self.node_id
        }

    # -- the metadata log --------------------------------------------------------------------------------------------

    def change(
        self, replicas: Iterable[int], isr: Iterable[int], partition_epoch: int, leader_end: int, now_ms: int
    ) -> bool:
        """Take over a change of the partition in this epoch of leadership. Return whether the high watermark moved."""
        self.wake_followers()
        self.isr = self.isr.follow(frozenset(isr), partition_epoch)
        self._set_replicas(replicas, now_ms)
        return self.advance(leader_end, now_ms)

    # -- fetches of followers, and appends ---------------------------------------------------------------------------

    def fetched(
        self, broker_id: int, broker_epoch: int, offset: int, log_start_offset: int, leader_end: int, now_ms: int
    ) -> bool:
        """Note a follower's fetch at `offset`. Return whether the high watermark moved.

        A fetch from before the broker's last registration counts for nothing: it may arrive late, and the broker may
        have lost the records that it claims (KIP-903). The metadata say which registration is the last one, not a
        fetch with a higher epoch: it may lie. Raises KeyError if the broker has no replica.
        """
        follower = self.followers[broker_id]
        registered = self._brokers.broker_epoch(broker_id)
        newest_epoch = follower.broker_epoch if registered is None else registered
        if UNKNOWN_BROKER_EPOCH < broker_epoch < newest_epoch:
            return False
        follower.fetched(broker_epoch, offset, log_start_offset, leader_end, now_ms)
        return self.advance(leader_end, now_ms)

    def advance(self, leader_end: int, now_ms: int) -> bool:
        """Raise the high watermark as far as the followers allow. Return whether it moved."""
        maximal = self.isr.maximal
        committed = leader_end
        for broker_id, follower in self.followers.items():
            if follower.log_end_offset < committed and (
                broker_id in maximal
                or (follower.has_caught_up(leader_end, now_ms, self.max_lag_ms) and self.is_eligible(follower))
            ):
                committed = follower.log_end_offset
        if committed <= self.high_watermark or not self.has_enough_replicas:
            return False
        self.high_watermark = committed
        return True

    def is_eligible(self, follower: Follower) -> bool:
        """Return whether a follower may be in the ISR: it is active, and it fetches with the epoch of its registration.

        A broker that has restarted since may have lost records (KIP-903).
        """
        epoch = self._brokers.broker_epoch(follower.broker_id)
        return epoch is not None and follower.broker_epoch in (UNKNOWN_BROKER_EPOCH, epoch)

    # -- fetch sessions ----------------------------------------------------------------------------------------------

    def wake_followers(self) -> None:
        """Let the next fetch of each follower read the partition, and one that waits. Call it for every change that
        ends the wait of a fetch.

        Those are appends, a higher log start offset, a failed log, and the end of this epoch. Changes of the replicas
        and of the ISR call it themselves.
        """
        for follower in self.followers.values():
            follower.wake()

    def end_rests(self) -> None:
        """Let the next fetch of each follower read the partition. A higher high watermark ends no wait of a fetch."""
        for follower in self.followers.values():
            if follower.rests:
                follower.end_rest()

    def may_rest(self, follower: Follower, broker_epoch: int, leader_end: int) -> bool:
        """Return whether further fetches of a follower at its offset change nothing until `wake_followers`.

        Its last fetch counted, it has everything, all of that is committed, and it is in the ISR. Otherwise time
        alone may change what its fetches do: another follower stops holding the high watermark back when it lags for
        too long or is fenced, and an expansion of the ISR is proposed again, or becomes possible.
        """
        return (
            follower.log_end_offset == leader_end == self.high_watermark
            and follower.broker_id in self.isr.committed
            and follower.broker_epoch == broker_epoch
        )

    # -- acks=all ----------------------------------------------------------------------------------------------------

    @property
    def has_enough_replicas(self) -> bool:
        """Whether a Produce with acks=all may append: min.insync.replicas of the committed ISR."""
        return len(self.isr.committed) >= min(self.min_in_sync_replicas, len(self.replicas))

    @property
    def had_enough_replicas(self) -> bool:
        """Whether a committed append may be acknowledged, else NOT_ENOUGH_REPLICAS_AFTER_APPEND."""
        return len(self.isr.maximal) >= min(self.min_in_sync_replicas, len(self.replicas))

    @property
    def last_committed_is_known(self) -> bool:
        """Whether the high watermark has reached the beginning of this epoch.

        Until then a client could see it go back, and ListOffsets gives OFFSET_NOT_AVAILABLE (KIP-207).
        """
        return self.high_watermark >= self.start_offset

    # -- changes of the ISR ------------------------------------------------------------------------------------------

    def expansion(self, broker_id: int) -> Proposal | None:
        """Propose an ISR with a follower that has just fetched, if it is in sync; None if there is nothing to propose.

        The proposal is pending until `committed` or `refused` is called.
        """
        follower = self.followers[broker_id]
        if self.isr.is_pending or broker_id in self.isr.committed:
            return None
        if follower.log_end_offset < max(self.high_watermark, self.start_offset) or not self.is_eligible(follower):
            return None
        return self._propose(self.isr.committed | {broker_id})

    def shrinkage(self, leader_end: int, now_ms: int) -> Proposal | None:
        """Propose an ISR without the followers that lag, or None. Call it each half of `max_lag_ms`."""
        if self.isr.is_pending:
            return None
        lagging = {
            broker_id
            for broker_id in self.isr.committed - {self.node_id}
            if (follower := self.followers.get(broker_id)) is None
            or not follower.has_caught_up(leader_end, now_ms, self.max_lag_ms)
        }
        return self._propose(self.isr.committed - lagging) if lagging else None

    def _propose(self, isr: frozenset[int]) -> Proposal:
        self.isr = self.isr.propose(isr)
        return Proposal(
            tuple((each, self._epoch_of(each)) for each in sorted(isr)), self.leader_epoch, self.isr.partition_epoch
        )

    def _epoch_of(self, broker_id: int) -> int:
        follower = self.followers.get(broker_id)
        if follower is not None and follower.broker_epoch != UNKNOWN_BROKER_EPOCH:
            return follower.broker_epoch
        epoch = self._brokers.broker_epoch(broker_id)
        return UNKNOWN_BROKER_EPOCH if epoch is None else epoch

    def committed(
        self,
        isr: Iterable[int],
        leader_epoch: int,
        partition_epoch: int,
        leader_end: int,
        now_ms: int,
        *,
        proposed_at: int,
    ) -> bool:
        """Take over the ISR of an AlterPartition response. Return whether the high watermark moved.

        `proposed_at` is the partition epoch of the proposal.
        """
        self.wake_followers()
        if leader_epoch == self.leader_epoch:
            self.isr = self.isr.answered(frozenset(isr), partition_epoch, proposed_at)
        return self.advance(leader_end, now_ms)

    def refused(self, partition_epoch: int, leader_end: int, now_ms: int) -> bool:
        """The controller has refused the proposal made at `partition_epoch`. Return whether the high watermark moved.

        It must not wait for a replica that is not in sync (KAFKA-15021).
        """
        if self.isr.partition_epoch == partition_epoch:
            self.isr = self.isr.withdraw()
        return self.advance(leader_end, now_ms)
