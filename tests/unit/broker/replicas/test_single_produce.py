"""The shortcut for Produce answers what the handler would answer, or leaves it to the handler."""

import pytest

from broker.replicas.single_produce import produce_single
from protocol.errors import ErrorCode
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.records.builder import BatchBuilder
from protocol.shortcuts.single_produce import SingleProduces
from storage.log_config import LogConfig
from tests.support.data_broker import TOPIC_ID, DataBroker
from tests.support.network import answers_in
from tests.support.offered import shortcut_of

VERSIONS = range(3, 14)


@pytest.fixture
def broker(tmp_path):
    return DataBroker(tmp_path)


def batch(broker, **of):
    builder = BatchBuilder(**of)
    builder.append(broker.clock.now_ms(), b"key", b"value", ())
    return builder.build()


def fields_of(version, records, *, topic="t", index=0, acks=1, topic_id=TOPIC_ID):
    named = {"name": topic} if version < 13 else {"topic_id": topic_id}
    data = [TopicProduceData(**named, partition_data=[PartitionProduceData(index=index, records=records)])]
    return {"acks": acks, "timeout_ms": 1000, "topic_data": data}


def request(version, records, **of):
    """The bytes of a request, behind a header of six."""
    return bytearray(b"header" + PRODUCE.request.encode(version, PRODUCE.request(**fields_of(version, records, **of))))


def ask(broker, version, records, **of):
    """(what the shortcut answers, what the handler answers after it)"""
    fields = fields_of(version, records, **of)
    frame = request(version, records, **of)
    shortcut = shortcut_of(broker, produce_single, version)
    assert (shortcut is None) == (version < 9)
    answer = None if shortcut is None else shortcut(None, memoryview(frame), 6, 77)
    if answer is not None:
        ((correlation_id, answer),) = answers_in(answer, [(PRODUCE, version)])
        assert correlation_id == 77
    reply = broker.send(PRODUCE, version, **fields)
    broker.settle()
    return answer, None if reply is None else broker.received(PRODUCE, version, reply)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("acks", [1, -1])
def test_records_that_are_taken_are_answered_as_by_the_handler(broker, version, acks):
    """But for the base offset, which goes on; older versions go to the handler."""
    partition = broker.topic(partitions=2)
    by_shortcut, by_handler = ask(broker, version, batch(broker), acks=acks)
    if version < 9:
        assert by_shortcut is None
        assert partition.log_end_offset == 1
        return

    assert partition.log_end_offset == 2
    by_shortcut.responses[0].partition_responses[0].base_offset += 1
    assert by_handler == by_shortcut


@pytest.mark.parametrize("version", range(9, 14))
def test_what_stands_before_the_records_is_read_once_where_there_is_such_a_partition(broker, version, monkeypatch):
    """Clients may make up names as they like. What the handler has to serve counts."""
    broker.topic()
    parsed = []
    parse = SingleProduces._parse
    monkeypatch.setattr(SingleProduces, "_parse", lambda self, head: parsed.append(head) or parse(self, head))
    shortcut = shortcut_of(broker, produce_single, version)
    for acks, index, times in ((1, 0, 1), (0, 0, 1), (1, 7, 3)):
        parsed.clear()
        for _ in range(3):
            shortcut(None, memoryview(request(version, batch(broker), acks=acks, index=index)), 6, 77)
        assert len(parsed) == times


@pytest.mark.parametrize("version", range(9, 14))
def test_a_repeated_batch_of_an_idempotent_producer_is_answered_with_its_first_offset(broker, version):
    """Sequences are checked as ever."""
    partition = broker.topic()
    records = batch(broker, producer_id=5, producer_epoch=0, base_sequence=0)
    ask(broker, version, records)
    by_shortcut, by_handler = ask(broker, version, records)

    assert partition.log_end_offset == 1
    assert by_handler == by_shortcut


def test_what_is_refused_or_waits_is_left_to_the_handler(broker):
    """Before anything was changed."""
    partition = broker.topic()
    good = batch(broker)
    damaged = bytearray(good)
    damaged[-1] ^= 1
    cases = {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ask(broker, 9, good, topic="unknown"),
        ErrorCode.UNKNOWN_TOPIC_ID: ask(broker, 13, good, topic_id=b"another topic id"),
        ErrorCode.CORRUPT_MESSAGE: ask(broker, 9, bytes(damaged)),
        ErrorCode.INVALID_RECORD: ask(broker, 9, good + good),
        ErrorCode.INVALID_REQUIRED_ACKS: ask(broker, 9, good, acks=2),
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: (None, None),
    }
    ask(broker, 9, batch(broker, producer_id=5, producer_epoch=0, base_sequence=0))
    cases[ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER] = ask(
        broker, 9, batch(broker, producer_id=5, producer_epoch=0, base_sequence=7)
    )
    for code, (by_shortcut, by_handler) in cases.items():
        assert by_shortcut is None
        assert by_handler.responses[0].partition_responses[0].error_code == code
    assert partition.log_end_offset == 1


@pytest.mark.parametrize("acks", [1, -1])
def test_a_log_that_is_offline_is_left_to_the_handler(broker, acks):
    partition = broker.topic()
    partition.log.directory.fail("broken")
    broker.partitions.take_offline(broker.logs.directories[0])
    by_shortcut, by_handler = ask(broker, 9, batch(broker), acks=acks)

    assert by_shortcut is None
    assert by_handler.responses[0].partition_responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_unanswered_internal_transactional_flushed_and_stamped_ones_are_left_to_the_handler(broker):
    """acks=0, __consumer_offsets, flush.messages, and LogAppendTime, which is patched into the request's bytes."""
    broker.topic("__consumer_offsets", topic_id=b"offsets-topic-id")
    broker.topic("flushed", topic_id=b"flushed-topic-id", config=LogConfig(flush_messages=1))
    broker.topic("stamped", topic_id=b"stamped-topic-id", config=LogConfig(message_timestamp_type="LogAppendTime"))
    broker.topic()

    assert ask(broker, 9, batch(broker), acks=0) == (None, None)
    assert ask(broker, 9, batch(broker), topic="stamped")[0] is None
    assert ask(broker, 9, batch(broker), topic="__consumer_offsets")[0] is None
    assert ask(broker, 9, batch(broker), topic="flushed")[0] is None
    transactional = batch(broker, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    assert ask(broker, 9, transactional)[0] is None
