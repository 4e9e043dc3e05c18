"""A led partition: high watermark, caught-up followers, changes of the ISR, as in Kafka's Partition."""

from __future__ import annotations

from typing import Any

import pytest

from replication.leading import LeaderState, Proposal

LAG_MS = 30_000


class Cluster(dict[int, int]):
    """The epochs of active brokers."""

    def broker_epoch(self, broker_id: int) -> int | None:
        return self.get(broker_id)


class Leader:
    """Broker 1 leads; `end` is its log end offset, `now` its clock."""

    def __init__(self, isr: tuple[int, ...] = (1, 2, 3), end: int = 10, min_isr: int = 1, **fields: Any) -> None:
        self.brokers = Cluster({1: 101, 2: 102, 3: 103})
        self.end, self.now = end, 0
        fields = {"high_watermark": 0, "start_offset": end, "replicas": (1, 2, 3), **fields}
        self.state = LeaderState(
            1,
            self.brokers,
            isr=isr,
            leader_epoch=5,
            partition_epoch=7,
            min_in_sync_replicas=min_isr,
            max_lag_ms=LAG_MS,
            now_ms=0,
            **fields,
        )

    def fetch(self, broker_id: int, offset: int, epoch: int | None = None, after_ms: int = 0) -> bool:
        self.now += after_ms
        epoch = 100 + broker_id if epoch is None else epoch
        return self.state.fetched(broker_id, epoch, offset, 0, self.end, self.now)

    def append(self, count: int = 1) -> None:
        self.end += count
        self.state.advance(self.end, self.now)

    def shrinkage(self, after_ms: int = 0) -> Proposal | None:
        self.now += after_ms
        return self.state.shrinkage(self.end, self.now)


# -- high watermark --------------------------------------------------------------------------------------------------


def test_high_watermark_is_the_lowest_end_of_the_isr() -> None:
    leader = Leader()
    assert not leader.fetch(2, 8)
    assert leader.state.high_watermark == 0, "broker 3 has not fetched yet"
    assert leader.fetch(3, 9)
    assert leader.state.high_watermark == 8
    assert leader.fetch(2, 10)
    assert leader.state.high_watermark == 9


def test_high_watermark_of_one_replica_is_the_log_end() -> None:
    leader = Leader(isr=(1,), replicas=(1,))
    leader.append()
    assert leader.state.high_watermark == 11


def test_high_watermark_never_falls_within_an_epoch() -> None:
    leader = Leader(isr=(1, 2))
    leader.fetch(2, 10)
    assert leader.state.high_watermark == 10
    assert not leader.fetch(2, 4)
    assert leader.state.high_watermark == 10


def test_replica_out_of_sync_does_not_count() -> None:
    leader = Leader(isr=(1, 2))
    leader.fetch(3, 2)
    leader.fetch(2, 10)
    assert leader.state.high_watermark == 10


def test_replica_that_has_caught_up_counts_before_it_joins() -> None:
    """Otherwise it would always lag behind a leader that commits alone (KAFKA-5868)."""
    leader = Leader(isr=(1,), replicas=(1, 2))
    leader.append()
    leader.fetch(2, 11)
    assert leader.state.high_watermark == 11
    leader.append()
    assert leader.state.high_watermark == 11
    leader.fetch(2, 12)
    assert leader.state.high_watermark == 12


@pytest.mark.parametrize("change", ["fenced", "restarted"])
def test_replica_that_may_not_join_does_not_count(change: str) -> None:
    """A broker that the controller does not accept must not hold the high watermark back (KAFKA-15021)."""
    leader = Leader(isr=(1,), replicas=(1, 2))
    leader.fetch(2, 10)
    if change == "fenced":
        del leader.brokers[2]
    else:
        leader.brokers[2] = 999
    leader.append()
    assert leader.state.high_watermark == 11


@pytest.mark.parametrize("known_by", ["fetch", "metadata"])
def test_late_fetch_of_an_earlier_registration(known_by: str) -> None:
    """The broker has restarted since, and may have lost the records that the fetch claims (KIP-903)."""
    leader = Leader(isr=(1, 2), replicas=(1, 2))
    leader.brokers[2] = 202
    if known_by == "fetch":
        del leader.brokers[2]
        leader.fetch(2, 5, epoch=202)
    assert not leader.fetch(2, 10, epoch=102)
    assert leader.state.high_watermark == (5 if known_by == "fetch" else 0)
    assert leader.fetch(2, 10, epoch=202)


def test_a_fetch_with_an_invented_epoch_silences_nobody() -> None:
    """The broker's own fetches go on counting: acks=all does not wait until the follower leaves the ISR."""
    leader = Leader(isr=(1, 2), replicas=(1, 2))
    leader.fetch(2, 0, epoch=1 << 62)
    assert leader.fetch(2, 10)
    assert leader.state.high_watermark == 10


def test_nothing_is_committed_below_the_minimum() -> None:
    """KIP-966."""
    leader = Leader(isr=(1,), min_isr=2, high_watermark=10)
    leader.append()
    assert leader.state.high_watermark == 10
    assert not leader.state.has_enough_replicas
    leader.state.change((1, 2, 3), (1, 2), 8, leader.end, leader.now)
    leader.fetch(2, 11)
    assert leader.state.high_watermark == 11


def test_minimum_is_at_most_the_number_of_replicas() -> None:
    leader = Leader(isr=(1,), replicas=(1,), min_isr=3)
    leader.append()
    assert leader.state.high_watermark == 11
    assert leader.state.has_enough_replicas


def test_new_leader_does_not_know_what_is_committed() -> None:
    """Until the high watermark reaches the beginning of the epoch (KIP-207)."""
    leader = Leader(isr=(1, 2), high_watermark=6)
    assert not leader.state.last_committed_is_known
    leader.fetch(2, 9)
    assert not leader.state.last_committed_is_known
    leader.fetch(2, 10)
    assert leader.state.last_committed_is_known


def test_fetch_of_a_broker_without_replica() -> None:
    with pytest.raises(KeyError):
        Leader().fetch(4, 0)


# -- shrinking -------------------------------------------------------------------------------------------------------


def test_all_count_as_caught_up_when_the_epoch_begins() -> None:
    leader = Leader()
    assert leader.shrinkage(after_ms=LAG_MS) is None
    proposal = leader.shrinkage(after_ms=1)
    assert proposal == (((1, 101),), 5, 7)


def test_follower_that_lags_leaves() -> None:
    leader = Leader()
    leader.fetch(2, 10)
    leader.fetch(3, 10)
    leader.append()
    leader.fetch(2, 11, after_ms=LAG_MS)
    assert leader.shrinkage() is None
    assert leader.shrinkage(after_ms=1) == (((1, 101), (2, 102)), 5, 7)
    assert leader.shrinkage() is None, "one proposal at a time"


def test_follower_with_the_whole_log_never_lags() -> None:
    """There is nothing to fetch: no time passes for it."""
    leader = Leader(isr=(1, 2))
    leader.fetch(2, 10)
    assert leader.shrinkage(after_ms=10 * LAG_MS) is None


def test_follower_behind_a_steady_stream_has_caught_up() -> None:
    """Each fetch has all that the leader had at the previous one."""
    leader = Leader(isr=(1, 2))
    for _ in range(5):
        leader.append(10)
        leader.fetch(2, leader.end - 10, after_ms=LAG_MS // 2)
        assert leader.shrinkage() is None


def test_slow_follower_leaves_although_it_fetches() -> None:
    leader = Leader(isr=(1, 2))
    for offset in range(1, 5):
        leader.append(10)
        leader.fetch(2, offset, after_ms=LAG_MS // 3)
    assert leader.shrinkage() == (((1, 101),), 5, 7)


def test_pending_shrinkage_commits_nothing() -> None:
    """The controller may still elect the one that is to leave."""
    leader = Leader(isr=(1, 2), high_watermark=10)
    leader.append()
    assert leader.shrinkage(after_ms=LAG_MS + 1) is not None
    assert leader.state.high_watermark == 10
    assert leader.state.committed((1,), 5, 8, leader.end, leader.now, proposed_at=7)
    assert leader.state.high_watermark == 11
    assert leader.state.isr == (frozenset({1}), 8, None)


# -- expanding -------------------------------------------------------------------------------------------------------


def test_follower_with_all_committed_records_joins() -> None:
    leader = Leader(isr=(1, 2), start_offset=0)
    leader.fetch(2, 9)
    leader.fetch(3, 8)
    assert leader.state.expansion(3) is None
    leader.fetch(3, 9)
    assert leader.state.expansion(3) == (((1, 101), (2, 102), (3, 103)), 5, 7)
    assert leader.state.expansion(3) is None
    assert leader.state.isr.maximal == {1, 2, 3}


def test_follower_without_the_beginning_of_the_epoch_does_not_join() -> None:
    """A new leader's high watermark may be too low (KAFKA-7128)."""
    leader = Leader(isr=(1, 2), high_watermark=3)
    leader.fetch(3, 9)
    assert leader.state.expansion(3) is None
    leader.fetch(3, 10)
    assert leader.state.expansion(3) is not None


@pytest.mark.parametrize("epoch", [-1, 103])
def test_broker_of_this_registration_joins(epoch: int) -> None:
    leader = Leader(isr=(1, 2))
    leader.fetch(3, 10, epoch=epoch)
    proposal = leader.state.expansion(3)
    assert proposal is not None
    assert proposal.isr[-1] == (3, 103)


@pytest.mark.parametrize("epoch", [102, 104])
def test_broker_of_another_registration_does_not_join(epoch: int) -> None:
    """It may have lost records since (KIP-903)."""
    leader = Leader(isr=(1, 2))
    leader.fetch(3, 10, epoch=epoch)
    assert leader.state.expansion(3) is None


def test_fenced_broker_does_not_join() -> None:
    leader = Leader(isr=(1, 2))
    del leader.brokers[3]
    leader.fetch(3, 10)
    assert leader.state.expansion(3) is None


def test_pending_member_counts_for_the_high_watermark() -> None:
    leader = Leader(isr=(1,), start_offset=0, high_watermark=10)
    leader.fetch(2, 10)
    assert leader.state.expansion(2) is not None
    leader.now += 10 * LAG_MS
    leader.append()
    assert leader.state.high_watermark == 10
    assert leader.state.refused(7, leader.end, leader.now)
    assert leader.state.high_watermark == 11


# -- answers and records of the controller ---------------------------------------------------------------------------


def test_record_of_the_same_epoch_does_not_end_a_proposal() -> None:
    """The response came first, the leader proposed the next change, then the record of the first arrives."""
    leader = Leader(isr=(1,))
    leader.fetch(2, 10)
    leader.state.expansion(2)
    leader.state.committed((1, 2), 5, 8, leader.end, leader.now, proposed_at=7)
    leader.fetch(3, 10)
    assert leader.state.expansion(3) is not None
    leader.state.change((1, 2, 3), (1, 2), 8, leader.end, leader.now)
    assert leader.state.isr.maximal == {1, 2, 3}


def test_later_record_ends_a_proposal() -> None:
    leader = Leader(isr=(1,))
    leader.fetch(2, 10)
    leader.state.expansion(2)
    leader.state.change((1, 2, 3), (1,), 8, leader.end, leader.now)
    assert not leader.state.isr.is_pending
    leader.state.refused(7, leader.end, leader.now)
    assert leader.state.expansion(2) is not None
    leader.state.refused(7, leader.end, leader.now)
    assert leader.state.isr.is_pending, "that answer is for the earlier proposal"


def test_old_answers_change_nothing() -> None:
    leader = Leader(isr=(1, 2))
    leader.state.committed((1,), 5, 6, leader.end, leader.now, proposed_at=7)
    leader.state.committed((1,), 4, 9, leader.end, leader.now, proposed_at=7)
    assert leader.state.isr == (frozenset({1, 2}), 7, None)


def test_answer_without_change_ends_the_proposal() -> None:
    """The controller had that ISR already."""
    leader = Leader(isr=(1, 2))
    leader.fetch(3, 10)
    leader.state.expansion(3)
    leader.state.committed((1, 2, 3), 5, 7, leader.end, leader.now, proposed_at=7)
    assert leader.state.isr == (frozenset({1, 2, 3}), 7, None)


def test_followers_that_stay_are_known() -> None:
    """A reassignment keeps what is known of those that stay."""
    leader = Leader(isr=(1, 2))
    leader.fetch(2, 9)
    leader.brokers[4] = 104
    leader.state.change((1, 2, 4), (1, 2), 8, leader.end, leader.now)
    assert leader.state.followers[2].log_end_offset == 9
    assert 3 not in leader.state.followers
    leader.fetch(4, 10)
    proposal = leader.state.expansion(4)
    assert proposal is not None
    assert [each for each, _ in proposal.isr] == [1, 2, 4]


def test_acknowledgement_after_the_isr_has_shrunk() -> None:
    """NOT_ENOUGH_REPLICAS_AFTER_APPEND is decided by the maximal ISR, a new Produce by the committed one."""
    leader = Leader(isr=(1,), min_isr=2, high_watermark=10)
    leader.fetch(2, 10)
    assert not leader.state.had_enough_replicas
    leader.state.expansion(2)
    assert leader.state.had_enough_replicas
    assert not leader.state.has_enough_replicas


def test_answer_after_its_record_leaves_the_next_proposal_pending() -> None:
    """Else the high watermark would pass a broker that the controller may already elect."""
    leader = Leader(isr=(1, 2), replicas=(1, 2))
    leader.fetch(2, 10)
    leader.append()
    assert leader.shrinkage(after_ms=LAG_MS + 1) is not None
    leader.state.change((1, 2), (1,), 8, leader.end, leader.now)
    leader.fetch(2, 11)
    assert leader.state.expansion(2) is not None
    leader.state.committed((1,), 5, 8, leader.end, leader.now, proposed_at=7)
    assert leader.state.isr.is_pending
    assert leader.state.isr.maximal == {1, 2}
