"""A member's fast path of Produce returns what the handler would return, or leaves the request to the handler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from broker.replication.replicated_produce import replicated_produce
from broker.requests.dispatcher import Waiting
from protocol.error_codes import ErrorCode
from protocol.framing import encode_response
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.records.builder import BatchBuilder
from protocol.schema import Struct
from replication.in_sync_replicas import InSyncReplicas
from storage.append.placing import AT_ONCE_BYTES
from tests.support.offered import fast_path_of
from tests.support.producing import batch
from tests.unit.broker.replication.leading_broker import REGISTERED, LeadingBroker

VERSIONS = [9, 12, 13]
CORRELATION_ID = 77


def ask(
    broker: LeadingBroker,
    version: int = 13,
    *records: bytes,
    acks: int = -1,
    timeout_ms: int = 1000,
    topic_id: bytes | None = None,
) -> object:
    """Return what the fast path makes of a request with these batches for t-0, or with one record."""
    serve = fast_path_of(broker, replicated_produce, version)
    assert serve is not None
    asked = topic(broker, version, records or [batch(1)], topic_id)
    request = PRODUCE.request(acks=acks, timeout_ms=timeout_ms, topic_data=[asked])
    frame = memoryview(bytearray(b"header" + PRODUCE.request.encode(version, request)))
    return serve(None, frame, 6, CORRELATION_ID)


def waiting(broker: LeadingBroker, version: int = 13, *records: bytes, timeout_ms: int = 1000) -> Waiting:
    found = ask(broker, version, *records, timeout_ms=timeout_ms)
    assert isinstance(found, Waiting)
    assert not found.deferred.done
    assert not found.deferred.mutes  # the connection goes on: offsets are assigned already
    return found


def answer(found: Waiting) -> bytes:
    frame = found.deferred.result()
    return frame if isinstance(frame, bytes) else b"".join(frame)


def of_handler(broker: LeadingBroker, version: int, end_waits: Callable[[LeadingBroker], None]) -> bytes:
    """Return the answer of the handler to the same request."""
    reply = broker.send(PRODUCE, version, acks=-1, timeout_ms=1000, topic_data=[topic(broker, version, [batch(1)])])
    assert reply is not None
    end_waits(broker)
    return b"".join(encode_response(PRODUCE, version, CORRELATION_ID, reply.result()))


def topic(broker: LeadingBroker, version: int, records: Sequence[bytes], topic_id: bytes | None = None) -> Struct:
    named = {"name": "t"} if version < 13 else {"topic_id": topic_id or broker.partition.topic_id}
    return TopicProduceData(**named, partition_data=[PartitionProduceData(index=0, records=each) for each in records])


def commit(broker: LeadingBroker) -> None:
    for follower in (2, 3):
        broker.follow(follower, broker.partition.log_end_offset)


def lose(broker: LeadingBroker) -> None:
    """Let another broker lead, and this one again."""
    broker.partition.leave(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    broker.partition = broker.lead(broker.partition.log, REGISTERED._replace(leader_epoch=6))


def shrink(broker: LeadingBroker) -> None:
    """Let only the leader be in sync, with a minimum of two, once the records are committed."""
    broker.partition.leader.isr = InSyncReplicas(frozenset({1}), 8)
    broker.partition.leader.high_watermark = broker.partition.log_end_offset
    broker.partition._end_waits()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("end_waits", [commit, lose, shrink, lambda broker: broker.advance(1000)])
def test_answers_are_those_of_the_handler(
    broker: LeadingBroker, tmp_path: Path, version: int, end_waits: Callable[[LeadingBroker], None]
) -> None:
    found = waiting(broker, version)
    end_waits(broker)
    other = LeadingBroker(tmp_path / "other")
    assert answer(found) == of_handler(other, version, end_waits)
    other.close()


def test_acks_all_waits_for_the_isr_in_order(broker: LeadingBroker) -> None:
    first, second = waiting(broker, 13, batch(2)), waiting(broker)
    broker.follow(2, 3)
    assert not first.deferred.done
    broker.follow(3, 2)
    assert first.deferred.done
    assert not second.deferred.done
    broker.follow(3, 3)
    assert second.deferred.done


def test_acks_one_waits_for_nobody(broker: LeadingBroker) -> None:
    assert isinstance(ask(broker, acks=1), bytes)
    assert broker.partition.high_watermark == 0


def test_a_disconnected_client_holds_nobody_back(broker: LeadingBroker) -> None:
    gone, stays = waiting(broker), waiting(broker)
    gone.deferred.cancel()
    commit(broker)
    assert stays.deferred.done


def test_a_committed_batch_that_is_repeated_is_answered_at_once(broker: LeadingBroker) -> None:
    sent = batch(2, producer_id=7, producer_epoch=0, base_sequence=0)
    waiting(broker, 13, sent)
    again = waiting(broker, 13, sent)
    commit(broker)
    assert again.deferred.done
    assert isinstance(ask(broker, 13, sent), bytes)
    assert broker.partition.log_end_offset == 2


def transactional() -> bytes:
    builder = BatchBuilder(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    builder.append(0, None, b"x", ())
    return bytes(builder.build())


@pytest.mark.parametrize(
    "left",
    ["isr", "acks", "queue", "internal", "denied", "large", "transaction", "two", "damaged", "append time", "flush"],
)
def test_the_handler_serves_the_rest(broker: LeadingBroker, left: str) -> None:
    records, acks = [batch(1)], -1
    if left == "isr":
        broker.keep(1)
    elif left == "acks":
        acks = 0
    elif left == "queue":
        broker.partition.queue = object()  # type: ignore[assignment]
    elif left == "internal":
        broker.partition.internal = True
    elif left == "denied":
        broker.guard = SimpleNamespace(asking=lambda *_: lambda connection, topic: False)  # type: ignore[assignment]
    elif left == "large":
        records = [batch(1, value=bytes(AT_ONCE_BYTES))]
    elif left == "transaction":
        records = [transactional()]
    elif left == "two":
        records *= 2
    elif left == "damaged":
        records = [batch(1)[:-1] + b"?"]
    elif left == "append time":
        broker.partition.log_config = replace(broker.partition.log_config, message_timestamp_type="LogAppendTime")
    else:
        broker.partition.log_config = replace(broker.partition.log_config, flush_messages=1)
    end = broker.partition.log_end_offset
    assert ask(broker, 13, *records, acks=acks) is None
    assert broker.partition.log_end_offset == end


def test_a_partition_without_other_replicas_has_the_common_fast_path(broker: LeadingBroker) -> None:
    alone = broker.topic("alone", topic_id=b"alone-topic-id-0")
    assert isinstance(ask(broker, topic_id=alone.topic_id), bytes)
