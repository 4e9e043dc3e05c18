"""DeleteRecords is answered once the active followers have deleted the records, too."""

from __future__ import annotations

from protocol.error_codes import ErrorCode
from protocol.schema import Struct
from runtime.deferred import Deferred
from tests.support.held_appends import batch, delete
from tests.unit.broker.replication.leading_broker import LeadingBroker


def answered(reply: Deferred[Struct]) -> tuple[int, int]:
    """Return the error code and the low watermark."""
    found = reply.result().topics[0].partitions[0]
    return found.error_code, found.low_watermark


def deletion(broker: LeadingBroker) -> Deferred[Struct]:
    """Delete the first two of three records, which all have, with a timeout of a second."""
    broker.produce(batch(3))
    for follower in (2, 3):
        broker.follow(follower, 0)
        report(broker, follower, 0)
    return delete(broker, 2)


def report(broker: LeadingBroker, follower: int, log_start_offset: int) -> None:
    broker.partition.follower_fetched(follower, broker.epochs[follower], 3, log_start_offset)


def test_followers_have_deleted_the_records(broker: LeadingBroker) -> None:
    reply = deletion(broker)
    report(broker, 2, 2)
    assert not reply.done
    report(broker, 3, 1)
    assert not reply.done
    report(broker, 3, 2)
    assert answered(reply) == (ErrorCode.NONE, 2)


def test_a_broker_that_is_fenced_is_not_waited_for(broker: LeadingBroker) -> None:
    del broker.epochs[3]
    broker.produce(batch(3))
    broker.keep(1, 2)
    broker.follow(2, 3)
    reply = delete(broker, -1)
    assert not reply.done
    report(broker, 2, 3)
    assert answered(reply) == (ErrorCode.NONE, 3)


def test_a_follower_that_says_nothing_ends_in_a_timeout(broker: LeadingBroker) -> None:
    reply = deletion(broker)
    report(broker, 2, 2)
    broker.advance(1000)
    assert answered(reply) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    assert broker.partition.log_start_offset == 2


def test_a_leader_that_resigns_does_not_know(broker: LeadingBroker) -> None:
    reply = deletion(broker)
    broker.partitions.give_up(broker.partition)
    assert answered(reply)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
