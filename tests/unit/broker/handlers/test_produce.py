"""Produce: what is appended, what is returned, and when the response waits for the disk."""

from dataclasses import replace

import pytest

from broker.requests.dispatcher import CloseConnection
from protocol.error_codes import ErrorCode
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.records.batch import parse_header
from protocol.schema import Struct
from storage.log_config import LogConfig
from tests.support.data_broker import DataBroker
from tests.support.producing import NOW_MS, OK, batch, offsets, patched, produce, request


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("acks", [1, -1])
def test_records_are_appended_and_have_a_base_offset(broker: DataBroker, version: int, acks: int) -> None:
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


@pytest.mark.parametrize("acks", [0, 1])
@pytest.mark.parametrize("in_one_topic", [True, False])
def test_a_repeated_partition_appends_its_last_records(broker: DataBroker, in_one_topic: bool, acks: int) -> None:
    """They are appended once and answered once, whether the partition or its topic is repeated."""
    broker.topic("a", 2)
    data = [PartitionProduceData(index=index, records=batch(count)) for index, count in ((0, 5), (1, 1), (0, 2))]
    topics = [data] if in_one_topic else [data[:1], data[1:]]
    topic_data = [TopicProduceData(name="a", partition_data=each) for each in topics]
    reply = broker.send(PRODUCE, 9, acks=acks, timeout_ms=1000, topic_data=topic_data)
    if reply is not None:
        response = broker.received(PRODUCE, 9, reply)
        assert [
            (topic.name, answer.index, answer.error_code, answer.base_offset)
            for topic in response.responses
            for answer in topic.partition_responses
        ] == [("a", 0, 0, 0), ("a", 1, 0, 0)]
    assert offsets(broker, "a", 0) == [0, 1]
    assert offsets(broker, "a", 1) == [0]


@pytest.mark.parametrize("acks", [1, 2])
def test_a_topic_without_partitions_is_not_answered(broker: DataBroker, acks: int) -> None:
    """As in Apache Kafka, which builds the response from partitions. Invalid acks change nothing about it."""
    broker.topic("a", 1)
    data = [PartitionProduceData(index=0, records=batch(1))]
    topic_data = [TopicProduceData(name="a", partition_data=data), TopicProduceData(name="b", partition_data=[])]
    for asked, answered in ((topic_data, ["a"]), (topic_data[1:], [])):
        reply = broker.send(PRODUCE, 9, acks=acks, timeout_ms=1000, topic_data=asked)
        assert [topic.name for topic in broker.received(PRODUCE, 9, reply).responses] == answered


def test_leader_epoch_and_offset_are_stamped_on_the_batch(broker: DataBroker) -> None:
    broker.topic(leader_epoch=4)
    produce(broker, patched(batch(2), 12, ">i", 99))
    partition = broker.partitions.get("t", 0)
    assert partition is not None
    header = parse_header(partition.log.read(0, 1000, 2).read())

    assert (header.base_offset, header.leader_epoch) == (0, 4)


def test_topics_are_named_by_id_from_version_13(broker: DataBroker) -> None:
    """An unknown id is UNKNOWN_TOPIC_ID, an unknown partition UNKNOWN_TOPIC_OR_PARTITION."""
    broker.topic()

    assert produce(broker, batch(), version=13, topic="").base_offset == 0
    assert produce(broker, batch(), version=13, topic_id=b"?" * 16).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert produce(broker, batch(), version=13, index=3).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_log_append_time_is_returned(broker: DataBroker) -> None:
    broker.topic(config=LogConfig(message_timestamp_type="LogAppendTime"))
    answer = produce(broker, batch(2, timestamp=5))

    assert answer.log_append_time_ms == broker.clock.now_ms()


def test_duplicates_return_their_first_offset_and_time(broker: DataBroker) -> None:
    """An idempotent producer retries. As in Kafka, the append time is then the batch's timestamp."""
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


def test_acks_0_is_not_answered(broker: DataBroker) -> None:
    broker.topic()
    assert broker.send(PRODUCE, 9, acks=0, timeout_ms=1000, topic_data=request(batch(2))) is None
    assert offsets(broker) == [0, 1]


@pytest.mark.parametrize("topic_data", [request(OK, index=9), request(OK[:-1]), request(patched(OK, 16, ">b", 3))])
def test_acks_0_that_fails_closes_the_connection(broker: DataBroker, topic_data: list[Struct]) -> None:
    """The producer has no other way to see the failure. It reconnects and refreshes its metadata."""
    broker.topic()
    with pytest.raises(CloseConnection):
        broker.send(PRODUCE, 9, acks=0, timeout_ms=1000, topic_data=topic_data)


def test_an_empty_request_has_an_empty_response(broker: DataBroker) -> None:
    assert broker.call(PRODUCE, 9, acks=1, timeout_ms=1000, topic_data=[]).responses == []


def test_a_failed_disk_is_a_storage_error(broker: DataBroker) -> None:
    partition = broker.topic()
    partition.log.directory.fail("disk on fire")
    answer = produce(broker, batch())

    assert (answer.error_code, answer.log_start_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)


def test_a_directory_offline_at_start_is_a_storage_error(broker: DataBroker) -> None:
    for directory in broker.logs.directories:
        directory.fail("not mounted")
    broker.topic(is_new=False)

    assert produce(broker, batch()).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_with_flush_messages_the_response_awaits_the_disk(broker: DataBroker) -> None:
    """Later requests of the connection may start meanwhile. One flush covers every append before it began."""
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


def test_a_failed_flush_is_a_storage_error(broker: DataBroker) -> None:
    partition = broker.topic(config=LogConfig(flush_messages=1))
    broker.background.held = True
    reply = broker.send(PRODUCE, 9, acks=-1, timeout_ms=1000, topic_data=request(batch()))
    partition.log.directory.fail("fsync failed")
    broker.background.release()
    assert reply is not None
    answer = broker.received(PRODUCE, 9, reply).responses[0].partition_responses[0]

    assert (answer.error_code, answer.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)


def test_acks_0_flushes_too(broker: DataBroker) -> None:
    """flush.messages=1 and acks=0: no request waits for the flush."""
    partition = broker.topic(config=LogConfig(flush_messages=1))
    assert broker.send(PRODUCE, 9, acks=0, timeout_ms=1000, topic_data=request(batch())) is None
    broker.settle()

    assert partition.log.recovery_point == 1


def test_a_new_flush_messages_counts_from_the_next_batch(broker: DataBroker) -> None:
    """It changes while the broker runs, up and down. The first flush covers records that no request waited for."""
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
