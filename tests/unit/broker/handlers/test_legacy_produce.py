"""Produce in the versions that Kafka 4 removed: messages are converted to batches."""

from __future__ import annotations

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.records.compression import Codec
from protocol.records.record import Record
from storage.log_config import LogConfig
from tests.support.data_broker import DataBroker
from tests.support.logs import T0, batch
from tests.support.old_clients import OLD_CODECS, messages, produce, read


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", OLD_CODECS)
def test_messages_are_appended_as_a_batch(broker: DataBroker, version: int, magic: int, codec: Codec) -> None:
    """A message in each old format, written by hand, is read back in the new one (S7.3, S7.11)."""
    broker.topic()
    broker.partitions.get("t", 0).append(batch(b"before"), T0)

    answer = produce(broker, messages(magic, codec=codec), version)

    assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (0, 1, -1)
    times = [T0, T0 + 1, T0 + 2] if magic else [-1] * 3
    assert read(broker)[1:] == [Record(1 + n, times[n], b"k", b"v" * 10) for n in range(3)]


def test_large_messages_are_converted_in_a_process_in_order(broker: DataBroker) -> None:
    """Requests that arrive meanwhile wait behind them."""
    broker.topic()
    broker.workers.held = True
    data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=messages(1, 3, size=9000))])
    first = broker.send(PRODUCE, 2, acks=1, topic_data=[data])
    small = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch(b"new"))])
    second = broker.send(PRODUCE, 9, acks=1, topic_data=[small])
    assert first is not None
    assert second is not None
    assert not first.done
    assert not second.done

    broker.workers.release()
    broker.settle()

    offsets = [
        broker.received(PRODUCE, version, reply).responses[0].partition_responses[0].base_offset
        for version, reply in ((2, first), (9, second))
    ]
    assert offsets == [0, 3]
    assert [record.value[:3] for record in read(broker)] == [b"vvv"] * 3 + [b"new"]


def test_log_append_time_is_returned_since_v2(broker: DataBroker) -> None:
    broker.topic(config=LogConfig(message_timestamp_type="LogAppendTime"))

    assert produce(broker, messages(1)).log_append_time_ms == broker.clock.now_ms()
    assert {record.timestamp for record in read(broker)} == {broker.clock.now_ms()}


def test_old_versions_take_batches_new_ones_no_messages(broker: DataBroker) -> None:
    """As in Kafka 3.9: the magic counts, not the version. From v3 on the version counts too."""
    broker.topic()

    assert produce(broker, batch(b"a"), 0).error_code == ErrorCode.NONE
    assert produce(broker, batch(b"a", codec=Codec.ZSTD), 2).error_code == ErrorCode.NONE
    assert produce(broker, batch(b"a") * 2, 2).error_code == ErrorCode.INVALID_RECORD
    assert produce(broker, messages(1), 3).error_code == ErrorCode.INVALID_RECORD


def test_produce_without_records_is_no_error(broker: DataBroker) -> None:
    """The offset in the response is -1, as in Kafka."""
    broker.topic()

    for records in (b"", b"abc", messages(1, 1)[:-1]):
        answer = produce(broker, records)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, -1)
    assert broker.partitions.get("t", 0).log_end_offset == 0


def test_rejected_messages_are_rejected_alone(broker: DataBroker) -> None:
    """The message has a wrong checksum (S7.6)."""
    broker.topic()
    damaged = messages(1)[:-1] + b"x"

    assert produce(broker, damaged).error_code == ErrorCode.CORRUPT_MESSAGE
    assert produce(broker, messages(1)).base_offset == 0
