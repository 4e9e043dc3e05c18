"""When a replicated append is acknowledged: acks=all, its errors, and the waits of coordinators."""

from __future__ import annotations

from dataclasses import replace

from broker.replicas.partition import Partition
from protocol.error_codes import ErrorCode
from runtime.deferred import Deferred
from tests.support.producing import batch
from tests.unit.broker.replication.leading_broker import REGISTERED, LeadingBroker


def commit(broker: LeadingBroker, end_offset: int) -> None:
    for follower in (2, 3):
        broker.follow(follower, end_offset)


def test_acks_all_waits_for_the_isr(broker: LeadingBroker) -> None:
    first, second = broker.produce(batch(2)), broker.produce()
    assert not first.done
    assert not first.mutes  # the connection goes on: offsets are assigned already
    broker.follow(2, 3)
    assert not first.done
    broker.follow(3, 2)
    assert first.done
    assert not second.done
    broker.follow(3, 3)
    assert [broker.code(each) for each in (first, second)] == [0, 0]
    assert second.result().responses[0].partition_responses[0].base_offset == 2


def test_acks_one_waits_for_nobody(broker: LeadingBroker) -> None:
    assert broker.code(broker.produce(acks=1)) == ErrorCode.NONE
    assert broker.partition.high_watermark == 0


def test_acks_all_times_out(broker: LeadingBroker) -> None:
    late, early = broker.produce(timeout_ms=1000), broker.produce(timeout_ms=300)
    broker.advance(299)
    assert not early.done
    broker.advance(1)
    assert broker.code(early) == ErrorCode.REQUEST_TIMED_OUT
    assert early.result().responses[0].partition_responses[0].base_offset == 1  # Apache Kafka names it, too
    assert not late.done
    commit(broker, 2)
    assert broker.code(late) == ErrorCode.NONE
    broker.advance(700)
    assert len(broker.timers) == 0  # at the latest at the deadline of the last wait


def test_repeated_batch_waits_as_its_first_append(broker: LeadingBroker) -> None:
    sent = batch(2, producer_id=7, producer_epoch=0, base_sequence=0)
    first = broker.produce(sent)
    later = broker.produce()
    again = broker.produce(sent)
    assert not again.done
    commit(broker, 2)
    assert (first.done, again.done, later.done) == (True, True, False)
    assert again.result().responses[0].partition_responses[0].base_offset == 0
    assert broker.produce(sent).done


def test_too_few_replicas_refuse_before_the_append(broker: LeadingBroker) -> None:
    broker.partition.change(REGISTERED._replace(isr=(1,), partition_epoch=8))
    assert broker.code(broker.produce()) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert broker.partition.log_end_offset == 0
    assert broker.code(broker.produce(acks=1)) == ErrorCode.NONE


def test_nothing_is_committed_below_the_minimum(broker: LeadingBroker) -> None:
    """KIP-966: the wait goes on until enough replicas are in sync again."""
    reply = broker.produce(timeout_ms=60_000)
    broker.keep(1)
    broker.follow(2, 1)
    assert not reply.done
    assert broker.partition.high_watermark == 0
    broker.partition.change(REGISTERED._replace(isr=(1, 2), partition_epoch=9))
    assert broker.code(reply) == ErrorCode.NONE


def test_waits_end_with_the_leadership(broker: LeadingBroker) -> None:
    replies = [broker.produce(), broker.produce()]
    broker.partitions.give_up(broker.partition)
    assert [broker.code(each) for each in replies] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    assert len(broker.timers) == 0


def test_waits_survive_another_epoch_of_this_leader(broker: LeadingBroker) -> None:
    reply = broker.produce()
    broker.partition.lead_again(REGISTERED._replace(leader_epoch=5, partition_epoch=8))
    for follower in (2, 3):
        broker.follow(follower, 1, leader_epoch=5)
    assert broker.code(reply) == ErrorCode.NONE


def test_a_client_that_disconnects_is_forgotten(broker: LeadingBroker) -> None:
    reply = broker.produce()
    reply.cancel()
    commit(broker, 1)
    assert broker.partition.high_watermark == 1


def test_flush_messages_waits_for_the_disk_as_well(broker: LeadingBroker) -> None:
    broker.partition.log_config = replace(broker.partition.log_config, flush_messages=1)
    broker.background.held = True
    one, every = broker.produce(acks=1), broker.produce()
    commit(broker, 2)
    assert (one.done, every.done) == (False, False)
    broker.background.held = False
    broker.background.release()
    broker.settle()
    assert [broker.code(each) for each in (one, every)] == [0, 0]


def relied_on(broker: LeadingBroker, partition: Partition | None = None) -> Deferred[None] | None:
    return broker.durability.relied_on(broker.partition if partition is None else partition)


def test_coordinators_rely_on_what_is_committed(broker: LeadingBroker) -> None:
    assert broker.durability.may_wait(broker.partition)
    assert relied_on(broker) is None
    broker.produce(acks=1)
    wait = relied_on(broker)
    assert wait is not None
    assert not wait.done
    commit(broker, 1)
    wait.result()
    assert relied_on(broker) is None


def test_coordinators_rely_on_the_records_that_they_name(broker: LeadingBroker) -> None:
    """Later records of others are not waited for."""
    broker.produce(acks=1)
    commit(broker, 1)
    broker.produce(acks=1)
    assert broker.durability.relied_on(broker.partition, 1) is None
    wait = broker.durability.relied_on(broker.partition, 2)
    assert wait is not None
    assert not wait.done
    commit(broker, 2)
    wait.result()


def test_a_partition_with_one_replica_waits_for_nobody(broker: LeadingBroker) -> None:
    single = broker.topic("single", topic_id=b"s" * 16)
    assert not broker.durability.may_wait(single)
    single.append(batch(1), broker.clock.now_ms())
    assert relied_on(broker, single) is None
