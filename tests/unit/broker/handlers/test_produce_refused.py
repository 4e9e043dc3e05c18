"""Produce: which records and requests are rejected, with the errors that Kafka returns."""

from types import SimpleNamespace
from typing import Any

import pytest

from broker.coordinators.transaction.verifier import CoordinatorVerifier
from protocol.error_codes import ErrorCode
from protocol.messages.produce import PRODUCE
from protocol.records.builder import BatchBuilder
from protocol.records.compression import Codec
from protocol.records.legacy_builder import MessageSetBuilder
from storage.log_config import LogConfig
from tests.support.data_broker import DataBroker
from tests.support.producing import NOW_MS, OK, batch, offsets, patched, produce, request

TRANSACTIONAL = batch(transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)


def old(magic: int) -> bytes:
    builder = MessageSetBuilder(magic)
    builder.append(1, b"k", b"v" * 60)
    return builder.build()


@pytest.mark.parametrize(("topic", "index"), [("nope", 0), ("", 0), ("a b/", 0), ("t", 1), ("t", -1)])
def test_unknown_topics_and_partitions(broker: DataBroker, topic: str, index: int) -> None:
    broker.topic()
    answer = produce(broker, batch(), topic=topic, index=index)

    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (answer.base_offset, answer.log_start_offset, answer.log_append_time_ms) == (-1, -1, -1)


@pytest.mark.parametrize(
    ("records", "code", "log_start_offset"),
    [
        # Kafka rejects these before it calls the log.
        (b"", ErrorCode.INVALID_RECORD, -1),
        (OK[:10], ErrorCode.INVALID_RECORD, -1),
        (OK[:60], ErrorCode.INVALID_RECORD, -1),
        (OK[:-1], ErrorCode.INVALID_RECORD, -1),
        (OK + OK, ErrorCode.INVALID_RECORD, -1),
        (old(0), ErrorCode.INVALID_RECORD, -1),
        (old(1), ErrorCode.INVALID_RECORD, -1),
        (OK + bytes(20), ErrorCode.CORRUPT_MESSAGE, -1),
        (patched(OK, 8, ">i", 14), ErrorCode.CORRUPT_MESSAGE, -1),
        # The log rejects these.
        (OK[:17] + b"abcd" + OK[21:], ErrorCode.CORRUPT_MESSAGE, -1),
        (patched(OK, 21, ">h", 5), ErrorCode.UNKNOWN_SERVER_ERROR, 0),
        (patched(OK, 21, ">h", 0x20), ErrorCode.INVALID_RECORD, 0),
        (patched(OK, 57, ">i", 3), ErrorCode.INVALID_RECORD, 0),
        (patched(OK, 57, ">i", 0), ErrorCode.INVALID_RECORD, 0),
        (patched(OK, 23, ">i", 5), ErrorCode.INVALID_RECORD, 0),
        (patched(OK, 23, ">i", -1), ErrorCode.INVALID_RECORD, 0),
        (patched(OK, 0, ">q", 77), ErrorCode.INVALID_RECORD, 0),
        (BatchBuilder().build(), ErrorCode.INVALID_RECORD, 0),
        (batch(producer_id=4, producer_epoch=0), ErrorCode.INVALID_RECORD, 0),
        (batch(timestamp=9_999_999_999_999), ErrorCode.INVALID_TIMESTAMP, 0),
        (batch(timestamp=9_999_999_999_999) + OK[:5], ErrorCode.INVALID_TIMESTAMP, 0),
        (batch(value=b"x" * 1_100_000), ErrorCode.MESSAGE_TOO_LARGE, -1),
    ],
)  # fmt: skip
def test_bad_records_get_the_errors_that_kafka_gives(
    broker: DataBroker, records: bytes, code: ErrorCode, log_start_offset: int
) -> None:
    """Apache Kafka 4.3.1 returned the same error code and offsets for the same bytes. Nothing is appended."""
    broker.topic()
    answer = produce(broker, records)

    assert (ErrorCode(answer.error_code), answer.base_offset) == (code, -1)
    assert answer.log_start_offset == log_start_offset
    assert offsets(broker) == []


def test_null_records_are_rejected(broker: DataBroker) -> None:
    broker.topic()
    assert produce(broker, None).error_code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    "records",
    [
        patched(OK, 21, ">h", 0x80), patched(OK, 21, ">h", 0x40), patched(OK, 21, ">h", 8), batch(timestamp=-1),
        OK + OK[:5], OK + OK[:40], patched(OK, 35, ">q", -1), batch(base_sequence=4), patched(OK, 43, ">q", -2),
        batch(producer_id=4000, base_sequence=0), batch(value=b"x" * 1_048_400),
    ],
)  # fmt: skip
def test_unusual_records_are_appended_as_by_kafka(broker: DataBroker, records: bytes) -> None:
    """Unknown attribute bits, a timestamp type bit, no timestamps, part of another batch, odd producer fields."""
    broker.topic()
    assert produce(broker, records).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("records", "message"),
    [
        (bytes(8) + (5).to_bytes(4, "big") + bytes(60), "Record size 5 is less than the minimum record overhead (14)"),
        (patched(OK, 8, ">i", -5), "Record size -5 is less than the minimum record overhead (14)"),
        (patched(OK, 16, ">b", 3), "Invalid magic found in record: 3"),
        (patched(OK, 16, ">b", -1), "Invalid magic found in record: -1"),
        (patched(patched(OK, 8, ">i", 2**31 - 1), 16, ">b", -1), "Invalid magic found in record: -1"),
        (patched(OK, 8, ">i", 2**31 - 1), None),
        (patched(OK, 8, ">i", 2**31 - 1)[:17], None),
    ],
)
def test_an_invalid_first_batch_fails_the_whole_request(
    broker: DataBroker, records: bytes, message: str | None
) -> None:
    """Kafka checks the first batch of all partitions before it appends any."""
    broker.topic(partitions=2)
    response = broker.call(
        PRODUCE, 9, acks=1, timeout_ms=1000,
        topic_data=[*request(OK, index=0), *request(records, index=1)],
    )  # fmt: skip

    code = ErrorCode.CORRUPT_MESSAGE if message else ErrorCode.UNKNOWN_SERVER_ERROR
    [topic] = response.responses
    assert [(each.index, each.error_code, each.error_message) for each in topic.partition_responses] == [
        (index, code, message) for index in (0, 1)
    ]
    assert offsets(broker) == []


def test_record_errors_name_the_records_at_fault(broker: DataBroker) -> None:
    """KIP-467: the index and message of each record, and one message for all of them."""
    broker.topic(config=LogConfig(cleanup_policy=frozenset({"compact"})))
    answer = produce(broker, batch(4, key=None))
    text = "Compacted topic cannot accept message without key in topic partition t-0"

    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert answer.log_start_offset == 0
    assert [(each.batch_index, each.batch_index_error_message) for each in answer.record_errors] == [
        (index, text) for index in range(4)
    ]
    assert answer.error_message == (
        "One or more records have been rejected due to 4 record errors in total, and only showing the first three "
        f"errors at most: [RecordError(batchIndex=0, message='{text}'), RecordError(batchIndex=1, message='{text}'), "
        f"RecordError(batchIndex=2, message='{text}')]"
    )
    assert produce(broker, batch(4, key=None), version=7).error_code == ErrorCode.INVALID_RECORD


def test_timestamps_out_of_range_name_the_range(broker: DataBroker) -> None:
    broker.topic()
    answer = produce(broker, batch(2, timestamp=NOW_MS + 3_600_000))
    highest = NOW_MS + 3_600_000

    assert answer.error_message == "One or more records have been rejected due to invalid timestamp"
    [error] = answer.record_errors
    assert error.batch_index == 1
    assert error.batch_index_error_message == (
        f"Timestamp {highest + 1} of message with offset 1 is out of range. "
        f"The timestamp should be within [{NOW_MS - (1 << 63) + 1}, {highest}]"
    )


def test_a_batch_above_the_segment_size_is_rejected(broker: DataBroker) -> None:
    broker.topic(config=LogConfig(segment_bytes=1000, max_message_bytes=5000))
    assert produce(broker, batch(value=b"x" * 2000)).error_code == ErrorCode.RECORD_LIST_TOO_LARGE


@pytest.mark.parametrize("acks", [2, -2, 77])
def test_invalid_acks_are_rejected(broker: DataBroker, acks: int) -> None:
    broker.topic()
    assert produce(broker, batch(), acks=acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert produce(broker, batch(), acks=acks, index=5).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert offsets(broker) == []


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (b"", ErrorCode.INVALID_RECORD),
        (OK[:-1], ErrorCode.INVALID_RECORD),
        (OK + OK, ErrorCode.INVALID_RECORD),
        (OK + OK[:-1], ErrorCode.INVALID_REQUIRED_ACKS),
        (old(1), ErrorCode.INVALID_RECORD),
        (OK + bytes(20), ErrorCode.CORRUPT_MESSAGE),
        (patched(OK, 16, ">b", 3), ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_batch_headers_are_checked_before_acks(broker: DataBroker, records: bytes, code: ErrorCode) -> None:
    """As in Kafka, which validates the request first."""
    broker.topic()
    assert produce(broker, records, acks=7).error_code == code


def test_zstd_needs_version_7(broker: DataBroker) -> None:
    """KIP-110: older clients could not read zstd back."""
    broker.topic()
    assert produce(broker, batch(codec=Codec.ZSTD), version=6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert produce(broker, batch(codec=Codec.ZSTD), version=7).error_code == ErrorCode.NONE


def test_internal_topics_accept_only_kafkas_admin_client(broker: DataBroker) -> None:
    broker.topic("__consumer_offsets")
    refused = produce(broker, batch(), topic="__consumer_offsets")

    assert (refused.error_code, refused.log_start_offset) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)
    assert produce(broker, batch(), topic="__consumer_offsets", client_id="__admin_client").error_code == 0


def test_too_few_in_sync_replicas_reject_acks_all(broker: DataBroker) -> None:
    """min.insync.replicas counts at most the number of replicas."""
    broker.topic(config=LogConfig(min_insync_replicas=2), replicas=[1, 2], isr=[1])
    broker.topic("alone", topic_id=b"x" * 16, config=LogConfig(min_insync_replicas=2))

    assert produce(broker, batch()).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert produce(broker, batch(), acks=1).error_code == ErrorCode.NONE
    assert produce(broker, batch(), topic="alone").error_code == ErrorCode.NONE


def test_transactional_records_need_a_transactional_id(broker: DataBroker) -> None:
    broker.topic(partitions=2)
    response = broker.call(
        PRODUCE, 9, acks=1, timeout_ms=1000, topic_data=[*request(OK, index=0), *request(TRANSACTIONAL, index=1)]
    )

    assert {answer.error_code for topic in response.responses for answer in topic.partition_responses} == {
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    }
    assert offsets(broker) == []


@pytest.mark.parametrize("size", [26, 40, 50, 51, 60])
@pytest.mark.parametrize("transactional", [True, False])
def test_batches_that_claim_less_than_a_header(broker: DataBroker, size: int, transactional: bool) -> None:
    """As in Apache Kafka 4.3, which checks attributes and producer id before the size."""
    broker.topic()
    records = bytearray((TRANSACTIONAL if transactional else OK)[:size])
    records[8:12] = (size - 12).to_bytes(4, "big")
    code = ErrorCode.UNKNOWN_SERVER_ERROR if size < 51 else ErrorCode.CORRUPT_MESSAGE
    if transactional:
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert produce(broker, bytes(records)).error_code == code


def test_unknown_transactions_are_rejected(broker: DataBroker) -> None:
    broker.topic()
    transactions: Any = SimpleNamespace(
        join=lambda *_: ErrorCode.INVALID_PRODUCER_ID_MAPPING, once_committed=lambda *_: None
    )
    broker.verifier = CoordinatorVerifier(broker.config, broker.clock, broker.timers, transactions)
    assert produce(broker, TRANSACTIONAL, transactional_id="x").error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert produce(broker, batch(transactional=True), transactional_id="x").error_code == ErrorCode.NONE
    assert produce(broker, OK, transactional_id="x").error_code == ErrorCode.NONE
