"""A partition that this broker leads: what is committed, and what the ISR becomes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from protocol.error_codes import ErrorCode
from replication.isr_changes import Answer, Outcome
from replication.leading import Proposal
from storage.log_config import LogConfig
from tests.support.fetching import fetch_one, read_offsets, send, wanted
from tests.support.producing import batch
from tests.unit.broker.replication.leading_broker import MAX_LAG_MS, REGISTERED, LeadingBroker


def test_consumers_read_what_all_in_sync_replicas_have(broker: LeadingBroker) -> None:
    """S21.2, S21.3: up to the high watermark, not up to the log end."""
    broker.produce(batch(3))
    assert read_offsets(fetch_one(broker, max_wait_ms=0)) == []
    broker.follow(2, 0)
    broker.follow(2, 3)
    assert broker.partition.high_watermark == 0
    assert read_offsets(broker.follow(3, 0)) == [0, 1, 2]  # followers read to the log end
    broker.follow(3, 3)
    assert broker.partition.high_watermark == 3
    assert read_offsets(fetch_one(broker, max_wait_ms=0)) == [0, 1, 2]


def test_a_waiting_consumer_is_woken_by_the_commit(broker: LeadingBroker) -> None:
    broker.produce()
    reply = send(broker, topics=wanted((0, 0)))
    broker.settle()
    assert not reply.done
    for follower in (2, 3):
        broker.follow(follower, 1)
    broker.settle()
    assert reply.done


def test_a_waiting_follower_is_woken_by_the_append(broker: LeadingBroker) -> None:
    broker.follow(2, 0)
    reply = send(broker, topics=wanted((0, 0), current_leader_epoch=4), replica_id=2)
    assert not reply.done
    broker.produce()
    broker.settle()
    assert reply.done


@pytest.mark.parametrize(
    ("broker_id", "epoch", "leader_epoch", "code"),
    [
        (2, 20, 4, ErrorCode.NONE),
        (2, 19, 4, ErrorCode.NOT_LEADER_OR_FOLLOWER),  # it has registered again since
        (2, 19, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (2, -1, 4, ErrorCode.NONE),
        (9, 90, 4, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (9, 90, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (2, 20, 5, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (2, 20, 3, ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
def test_fetches_of_followers_are_checked(
    broker: LeadingBroker, broker_id: int, epoch: int, leader_epoch: int, code: ErrorCode
) -> None:
    assert broker.follow(broker_id, 0, epoch=epoch, leader_epoch=leader_epoch).error_code == code


def test_a_follower_whose_log_diverges_has_confirmed_nothing(broker: LeadingBroker) -> None:
    """Its offsets are of other records (KIP-595)."""
    broker.produce(batch(3))
    broker.follow(3, 3)
    answer = fetch_one(
        broker,
        3,
        version=12,
        replica_id=2,
        current_leader_epoch=4,
        last_fetched_epoch=1,
        max_wait_ms=0,
    )
    assert answer.diverging_epoch.end_offset >= 0
    assert broker.partition.high_watermark == 0


def test_isr_shrinks_by_followers_that_lag(broker: LeadingBroker) -> None:
    """S21.5-S21.7, S23.2: replica.lag.time.max.ms is 30,000."""
    broker.produce(batch(3))
    broker.advance(MAX_LAG_MS)
    broker.follow(2, 3)
    broker.advance(1)
    broker.partition.check_lag()
    [(key, proposal)] = broker.proposed
    assert key == (broker.partition.topic_id, 0)
    assert proposal == Proposal(isr=((1, -1), (2, 20)), leader_epoch=4, partition_epoch=7)
    broker.partition.check_lag()
    assert len(broker.proposed) == 1  # while it is pending

    broker.partition.take_answer(Answer(key, proposal, Outcome.COMMITTED, 0, (1, 2), 4, 8))
    assert broker.partition.isr == (1, 2)
    assert broker.partition.high_watermark == 3
    assert (broker.partition.counts.isr_shrinks, broker.partition.counts.isr_expands) == (1, 0)


def test_isr_expands_by_a_follower_that_has_caught_up(broker: LeadingBroker) -> None:
    broker.keep(1, 2)
    broker.produce(batch(3))
    broker.follow(2, 3)
    broker.follow(3, 2)
    assert broker.proposed == []
    broker.follow(3, 3)
    [(key, proposal)] = broker.proposed
    assert proposal.isr == ((1, -1), (2, 20), (3, 30))
    broker.partition.take_answer(Answer(key, proposal, Outcome.REFUSED, ErrorCode.INELIGIBLE_REPLICA))
    assert broker.partition.isr == (1, 2)
    assert broker.partition.counts.failed_isr_updates == 1
    broker.follow(3, 3)
    assert len(broker.proposed) == 2
    broker.partition.take_answer(Answer(key, broker.proposed[1][1], Outcome.COMMITTED, 0, (1, 2, 3), 4, 9))
    assert broker.partition.isr == (1, 2, 3)
    assert (broker.partition.counts.isr_shrinks, broker.partition.counts.isr_expands) == (0, 1)


def test_an_answer_that_is_superseded_leaves_the_proposal_to_the_metadata_log(broker: LeadingBroker) -> None:
    broker.produce()
    broker.follow(2, 1)
    broker.advance(MAX_LAG_MS + 1)
    broker.partition.check_lag()
    [(key, proposal)] = broker.proposed
    broker.partition.take_answer(Answer(key, proposal, Outcome.SUPERSEDED, ErrorCode.FENCED_LEADER_EPOCH))
    broker.partition.check_lag()
    assert len(broker.proposed) == 1
    broker.partition.change(REGISTERED._replace(isr=(1, 2), partition_epoch=8))
    assert broker.partition.high_watermark == 1


def test_alone_in_the_isr_a_leader_commits_at_once(broker: LeadingBroker) -> None:
    broker.partition.log_config = replace(broker.partition.log_config, min_insync_replicas=1)
    broker.keep(1)
    reply = broker.produce()
    assert reply.done
    assert broker.partition.high_watermark == 1


def test_a_lower_minimum_commits_what_waits(broker: LeadingBroker) -> None:
    broker.keep(1, 2)
    broker.partition.log_config = replace(broker.partition.log_config, min_insync_replicas=3)
    reply = broker.produce(acks=1)
    assert broker.code(reply) == ErrorCode.NONE
    broker.follow(2, 1)
    assert broker.partition.high_watermark == 0
    broker.partition.log_config = replace(broker.partition.log_config, min_insync_replicas=2)
    assert broker.partition.high_watermark == 1


def test_high_watermark_stays_in_the_next_epoch(broker: LeadingBroker) -> None:
    broker.produce(batch(2))
    for follower in (2, 3):
        broker.follow(follower, 2)
    broker.produce()
    broker.partition.lead_again(REGISTERED._replace(leader_epoch=5, partition_epoch=9))
    assert (broker.partition.leader_epoch, broker.partition.high_watermark) == (5, 2)
    assert broker.follow(2, 2, leader_epoch=4).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert broker.partition.log.end_offset_for_epoch(4).start_offset == 3


def test_another_leader_is_the_answer_after_the_term(broker: LeadingBroker) -> None:
    waiting = send(broker, topics=wanted((0, 0)))
    broker.partitions.give_up(broker.partition)
    broker.settle()
    assert fetch_one(broker, max_wait_ms=0).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert broker.code(broker.produce()) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert waiting.result().topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    led = broker.lead(broker.partition.log, REGISTERED._replace(leader_epoch=6, partition_epoch=12))
    assert broker.partitions.get("t", 0) is led
    assert fetch_one(broker, max_wait_ms=0).error_code == ErrorCode.NONE


def test_a_new_leader_without_other_replicas_has_committed_its_log(broker: LeadingBroker) -> None:
    """Nobody may append or fetch for a long time: whoever waits for the log end does not wait for them."""
    broker.produce(batch(3))
    assert broker.partition.high_watermark == 0
    broker.partitions.give_up(broker.partition)
    broker.partition.log.config = LogConfig(min_insync_replicas=1)
    broker.partition = broker.lead(broker.partition.log, REGISTERED._replace(isr=(1,), leader_epoch=5))
    assert broker.partition.high_watermark == 3
