"""Produce: what is appended and what is refused, and how each is said."""

from dataclasses import replace
from struct import pack_into
from types import SimpleNamespace

import pytest

from broker.dispatch import CloseConnection
from protocol.errors import ErrorCode
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.records.batch import parse_header
from protocol.records.builder import BatchBuilder
from protocol.records.compression import Codec
from protocol.records.crc32c import crc32c
from protocol.records.legacy_builder import MessageSetBuilder
from protocol.records.record import iter_records
from protocol.schema import Struct
from storage.log_config import LogConfig
from tests.support.data_broker import TOPIC_ID, DataBroker

NOW_MS = 1_700_000_000_000


def batch(
    count: int = 1, *, timestamp: int = NOW_MS, key: bytes | None = b"k", value: bytes = b"v", **fields: object
) -> bytes:
    builder = BatchBuilder(**fields)  # type: ignore[arg-type]
    for number in range(count):
        builder.append(timestamp + number, key, value)
    return builder.build()


def patched(data: bytes, position: int, layout: str, value: int) -> bytes:
    """The batch with a field of its header changed, and the checksum right again."""
    changed = bytearray(data)
    pack_into(layout, changed, position, value)
    changed[17:21] = crc32c(memoryview(changed)[21:]).to_bytes(4, "big")
    return bytes(changed)


def request(records: bytes | None, *, topic: str = "t", index: int = 0, topic_id: bytes = TOPIC_ID) -> list[Struct]:
    return [
        TopicProduceData(
            name=topic, topic_id=topic_id, partition_data=[PartitionProduceData(index=index, records=records)]
        )
    ]


def produce(
    broker: DataBroker, records: bytes | None, *, version: int = 12, acks: int = -1, client_id: str = "client",
    transactional_id: str | None = None, **of: object,
) -> Struct:  # fmt: skip
    """The answer for the one partition."""
    response = broker.call(
        PRODUCE, version, client_id, acks=acks, timeout_ms=1000, transactional_id=transactional_id,
        topic_data=request(records, **of),  # type: ignore[arg-type]
    )  # fmt: skip
    [topic] = response.responses
    [answer] = topic.partition_responses
    return answer


def offsets(broker: DataBroker, topic: str = "t", index: int = 0) -> list[int]:
    """The offsets of all records of a partition, as read from its log."""
    partition = broker.partitions.get(topic, index)
    assert partition is not None
    records = partition.log.read(0, 1 << 30, partition.high_watermark)
    return [record.offset for record in iter_records(records if isinstance(records, bytes) else records.read())]


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("acks", [1, -1])
def test_records_are_appended_and_their_first_offset_told(broker: DataBroker, version: int, acks: int) -> None:
    broker.topic()
    produce(broker, batch(3))
    answer = produce(broker, batch(2), version=version, acks=acks)

    assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (0, 3, -1)
    assert answer.log_start_offset == (0 if version >= 5 else -1)
    assert (answer.record_errors, answer.error_message) == ([], None)
    assert offsets(broker) == [0, 1, 2, 3, 4]


def test_several_topics_and_partitions_are_answered_in_order(broker: DataBroker) -> None:
    broker.topic("a", 2)
    broker.topic("b", 1, topic_id=b"b" * 16)
    response = broker.call(
        PRODUCE, 9, acks=1, timeout_ms=1000,
        topic_data=[
            TopicProduceData(name="b", partition_data=[PartitionProduceData(index=0, records=batch(2))]),
            TopicProduceData(
                name="a",
                partition_data=[
                    PartitionProduceData(index=1, records=batch(1)),
                    PartitionProduceData(index=7, records=batch(1)),
                    PartitionProduceData(index=0, records=batch(4)),
                ],
            ),
        ],
    )  # fmt: skip

    assert [
        (topic.name, answer.index, answer.error_code, answer.base_offset)
        for topic in response.responses
        for answer in topic.partition_responses
    ] == [("b", 0, 0, 0), ("a", 1, 0, 0), ("a", 7, 3, -1), ("a", 0, 0, 0)]
    assert offsets(broker, "a", 0) == [0, 1, 2, 3]


def test_leader_epoch_and_offset_are_stamped_on_the_batch(broker: DataBroker) -> None:
    broker.topic(leader_epoch=4)
    produce(broker, patched(batch(2), 12, ">i", 99))
    partition = broker.partitions.get("t", 0)
    assert partition is not None
    header = parse_header(partition.log.read(0, 1000, 2).read())

    assert (header.base_offset, header.leader_epoch) == (0, 4)


def test_topics_are_known_by_id_from_version_13(broker: DataBroker) -> None:
    """An id that is none: UNKNOWN_TOPIC_ID; a partition that is none: UNKNOWN_TOPIC_OR_PARTITION."""
    broker.topic()

    assert produce(broker, batch(), version=13, topic="").base_offset == 0
    assert produce(broker, batch(), version=13, topic_id=b"?" * 16).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert produce(broker, batch(), version=13, index=3).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(("topic", "index"), [("nope", 0), ("", 0), ("a b/", 0), ("t", 1), ("t", -1)])
def test_unknown_topics_and_partitions(broker: DataBroker, topic: str, index: int) -> None:
    broker.topic()
    answer = produce(broker, batch(), topic=topic, index=index)

    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (answer.base_offset, answer.log_start_offset, answer.log_append_time_ms) == (-1, -1, -1)


def old(magic: int) -> bytes:
    builder = MessageSetBuilder(magic)
    builder.append(1, b"k", b"v" * 60)
    return builder.build()


OK = batch(2)


@pytest.mark.parametrize(
    ("records", "code", "log_start_offset"),
    [
        # What Kafka refuses before it asks the log.
        (b"", ErrorCode.INVALID_RECORD, -1),
        (OK[:10], ErrorCode.INVALID_RECORD, -1),
        (OK[:60], ErrorCode.INVALID_RECORD, -1),
        (OK[:-1], ErrorCode.INVALID_RECORD, -1),
        (OK + OK, ErrorCode.INVALID_RECORD, -1),
        (old(0), ErrorCode.INVALID_RECORD, -1),
        (old(1), ErrorCode.INVALID_RECORD, -1),
        (OK + bytes(20), ErrorCode.CORRUPT_MESSAGE, -1),
        (patched(OK, 8, ">i", 14), ErrorCode.CORRUPT_MESSAGE, -1),
        # What the log refuses.
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
    """Error code and offsets as Apache Kafka 4.3.1 answered the same bytes; nothing is appended."""
    broker.topic()
    answer = produce(broker, records)

    assert (ErrorCode(answer.error_code), answer.base_offset) == (code, -1)
    assert answer.log_start_offset == log_start_offset
    assert offsets(broker) == []


def test_null_records_are_refused(broker: DataBroker) -> None:
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
def test_odd_records_are_appended_as_kafka_does(broker: DataBroker, records: bytes) -> None:
    """Unknown attribute bits, a timestamp type bit, no timestamps, the rest of a further batch, odd producers."""
    broker.topic()
    assert produce(broker, records).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("records", "message"),
    [
        (bytes(8) + (5).to_bytes(4, "big") + bytes(60), "Record size 5 is less than the minimum record overhead (14)"),
        (patched(OK, 8, ">i", -5), "Record size -5 is less than the minimum record overhead (14)"),
        (patched(OK, 16, ">b", 3), "Invalid magic found in record: 3"),
        (patched(OK, 16, ">b", -1), "Invalid magic found in record: -1"),
        (patched(OK, 8, ">i", 2**31 - 1), None),
    ],
)
def test_a_first_batch_that_cannot_be_fails_the_whole_request(
    broker: DataBroker, records: bytes, message: str | None
) -> None:
    """Kafka looks at the first batch of all partitions before it appends any."""
    broker.topic(partitions=2)
    response = broker.call(
        PRODUCE, 9, acks=1, timeout_ms=1000,
        topic_data=[*request(OK, index=0), *request(records, index=1)],
    )  # fmt: skip

    for topic in response.responses:
        [answer] = topic.partition_responses
        code = ErrorCode.CORRUPT_MESSAGE if message else ErrorCode.UNKNOWN_SERVER_ERROR
        assert (answer.error_code, answer.error_message) == (code, message)
    assert offsets(broker) == []


def test_record_errors_name_the_records_at_fault(broker: DataBroker) -> None:
    """KIP-467: each record's index and message, and a message for all of them."""
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


def test_timestamps_out_of_range_say_what_the_range_is(broker: DataBroker) -> None:
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


def test_a_batch_above_the_segment_size_is_refused(broker: DataBroker) -> None:
    broker.topic(config=LogConfig(segment_bytes=1000, max_message_bytes=5000))
    assert produce(broker, batch(value=b"x" * 2000)).error_code == ErrorCode.RECORD_LIST_TOO_LARGE


def test_log_append_time_is_told(broker: DataBroker) -> None:
    broker.topic(config=LogConfig(message_timestamp_type="LogAppendTime"))
    answer = produce(broker, batch(2, timestamp=5))

    assert answer.log_append_time_ms == broker.clock.now_ms()


def test_duplicates_are_answered_with_their_first_offset_and_time(broker: DataBroker) -> None:
    """An idempotent producer that tries again; Kafka tells the batch's timestamp as its append time then."""
    broker.topic()
    produce(broker, batch(3))
    sent = batch(2, producer_id=7, producer_epoch=0, base_sequence=0)
    assert produce(broker, sent).base_offset == 3
    answer = produce(broker, sent)

    assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (0, 3, NOW_MS + 1)
    assert offsets(broker) == [0, 1, 2, 3, 4]


def test_sequences_and_epochs_are_checked(broker: DataBroker) -> None:
    broker.topic()

    def code(epoch: int, sequence: int) -> int:
        return produce(broker, batch(producer_id=7, producer_epoch=epoch, base_sequence=sequence)).error_code

    assert code(0, 0) == ErrorCode.NONE
    assert code(0, 5) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code(1, 3) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code(1, 0) == ErrorCode.NONE
    assert code(0, 1) == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("acks", [2, -2, 77])
def test_acks_that_are_none_are_refused(broker: DataBroker, acks: int) -> None:
    broker.topic()
    assert produce(broker, batch(), acks=acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert produce(broker, batch(), acks=acks, index=5).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert offsets(broker) == []


def test_acks_0_is_not_answered(broker: DataBroker) -> None:
    broker.topic()
    assert broker.send(PRODUCE, 9, acks=0, timeout_ms=1000, topic_data=request(batch(2))) is None
    assert offsets(broker) == [0, 1]


@pytest.mark.parametrize("topic_data", [request(OK, index=9), request(OK[:-1]), request(patched(OK, 16, ">b", 3))])
def test_acks_0_that_fails_closes_the_connection(broker: DataBroker, topic_data: list[Struct]) -> None:
    """The producer has no other way to see it, and fetches metadata anew when it has connected again."""
    broker.topic()
    with pytest.raises(CloseConnection):
        broker.send(PRODUCE, 9, acks=0, timeout_ms=1000, topic_data=topic_data)


def test_zstd_needs_version_7(broker: DataBroker) -> None:
    """KIP-110: older clients could not read it back."""
    broker.topic()
    assert produce(broker, batch(codec=Codec.ZSTD), version=6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert produce(broker, batch(codec=Codec.ZSTD), version=7).error_code == ErrorCode.NONE


def test_internal_topics_take_records_of_kafkas_admin_client_alone(broker: DataBroker) -> None:
    broker.topic("__consumer_offsets")
    refused = produce(broker, batch(), topic="__consumer_offsets")

    assert (refused.error_code, refused.log_start_offset) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)
    assert produce(broker, batch(), topic="__consumer_offsets", client_id="__admin_client").error_code == 0


def test_too_few_replicas_in_sync_refuse_acks_all(broker: DataBroker) -> None:
    """min.insync.replicas counts at most the replicas that there are."""
    broker.topic(config=LogConfig(min_insync_replicas=2), replicas=[1, 2], isr=[1])
    broker.topic("alone", topic_id=b"x" * 16, config=LogConfig(min_insync_replicas=2))

    assert produce(broker, batch()).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert produce(broker, batch(), acks=1).error_code == ErrorCode.NONE
    assert produce(broker, batch(), topic="alone").error_code == ErrorCode.NONE


TRANSACTIONAL = batch(transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)


def test_transactional_records_without_a_transactional_id_fail_the_request(broker: DataBroker) -> None:
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
def test_batches_that_say_that_they_are_shorter_than_a_header(
    broker: DataBroker, size: int, transactional: bool
) -> None:
    """As Apache Kafka 4.3 answers: its looks at attributes and producer id come before that at the size."""
    broker.topic()
    records = bytearray((TRANSACTIONAL if transactional else OK)[:size])
    records[8:12] = (size - 12).to_bytes(4, "big")
    code = ErrorCode.UNKNOWN_SERVER_ERROR if size < 51 else ErrorCode.CORRUPT_MESSAGE
    if transactional:
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert produce(broker, bytes(records)).error_code == code


def test_transactions_that_no_coordinator_knows_are_refused(broker: DataBroker) -> None:
    broker.topic()
    broker.transactions = SimpleNamespace(
        join=lambda *_: ErrorCode.INVALID_PRODUCER_ID_MAPPING, once_forced=lambda *_: None
    )
    assert produce(broker, TRANSACTIONAL, transactional_id="x").error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert produce(broker, batch(transactional=True), transactional_id="x").error_code == ErrorCode.NONE
    assert produce(broker, OK, transactional_id="x").error_code == ErrorCode.NONE


def test_nothing_to_produce_is_answered_with_nothing(broker: DataBroker) -> None:
    assert broker.call(PRODUCE, 9, acks=1, timeout_ms=1000, topic_data=[]).responses == []


def test_a_disk_that_failed_answers_storage_error(broker: DataBroker) -> None:
    partition = broker.topic()
    partition.log.directory.fail("disk on fire")
    answer = produce(broker, batch())

    assert (answer.error_code, answer.log_start_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)


def test_a_partition_whose_directory_was_down_at_the_start_answers_storage_error(broker: DataBroker) -> None:
    for directory in broker.logs.directories:
        directory.fail("not mounted")
    broker.topic(is_new=False)

    assert produce(broker, batch()).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_with_flush_messages_the_answer_waits_for_the_disk(broker: DataBroker) -> None:
    """Later requests of the connection may start meanwhile; one flush serves all that came before it began."""
    partition = broker.topic(config=LogConfig(flush_messages=1))
    broker.background.held = True
    replies = [broker.send(PRODUCE, 9, acks=1, timeout_ms=1000, topic_data=request(batch())) for _ in range(3)]
    assert not any(reply.done or reply.mutes for reply in replies if reply)
    broker.background.held = False
    broker.background.release()

    assert [
        broker.received(PRODUCE, 9, reply).responses[0].partition_responses[0].base_offset for reply in replies if reply
    ] == [0, 1, 2]
    assert partition.log.recovery_point == 3


def test_a_flush_that_fails_is_a_storage_error(broker: DataBroker) -> None:
    partition = broker.topic(config=LogConfig(flush_messages=1))
    broker.background.held = True
    reply = broker.send(PRODUCE, 9, acks=-1, timeout_ms=1000, topic_data=request(batch()))
    partition.log.directory.fail("fsync failed")
    broker.background.release()
    assert reply is not None
    answer = broker.received(PRODUCE, 9, reply).responses[0].partition_responses[0]

    assert (answer.error_code, answer.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)


def test_without_an_answer_records_are_forced_to_the_disk_too(broker: DataBroker) -> None:
    """flush.messages=1 and acks=0: nobody waits for it."""
    partition = broker.topic(config=LogConfig(flush_messages=1))
    assert broker.send(PRODUCE, 9, acks=0, timeout_ms=1000, topic_data=request(batch())) is None
    broker.settle()

    assert partition.log.recovery_point == 1


def test_flush_messages_counts_from_the_next_batch_on(broker: DataBroker) -> None:
    """A change while the broker runs, in both directions; records that nobody waited for go with the first."""
    partition = broker.topic()
    produce(broker, batch())
    assert partition.log.recovery_point == 0
    broker.partitions.update_config("t", LogConfig(flush_messages=1))
    produce(broker, batch())
    assert partition.log.recovery_point == 2
    broker.partitions.update_config("t", LogConfig())
    produce(broker, batch())
    assert partition.log.recovery_point == 2


def test_flush_messages_counts_records(broker: DataBroker) -> None:
    partition = broker.topic(config=replace(LogConfig(), flush_messages=5))
    produce(broker, batch(4))
    assert partition.log.recovery_point == 0
    produce(broker, batch(1))
    assert partition.log.recovery_point == 5
