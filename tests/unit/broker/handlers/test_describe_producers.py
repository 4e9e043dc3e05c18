"""DescribeProducers reports the producer state of a partition."""

from protocol.error_codes import ErrorCode
from protocol.messages.describe_producers import DESCRIBE_PRODUCERS, TopicRequest
from protocol.records.builder import BatchBuilder
from protocol.records.control import build_end_transaction_marker
from protocol.schema import Struct
from storage.append.header_validation import AppendOrigin
from tests.support.data_broker import DataBroker


def describe(broker: DataBroker, topic: str = "t", index: int = 0) -> Struct:
    response = broker.call(DESCRIBE_PRODUCERS, 0, topics=[TopicRequest(name=topic, partition_indexes=[index])])
    [answer] = response.topics[0].partitions
    assert answer.partition_index == index
    return answer


def test_producers_with_their_last_batch_and_open_transaction(broker: DataBroker) -> None:
    partition = broker.topic()
    now_ms = broker.clock.now_ms()

    def append(producer_id: int, *, transactional: bool = False, sequence: int = 0) -> None:
        builder = BatchBuilder(
            producer_id=producer_id, producer_epoch=2, base_sequence=sequence, transactional=transactional
        )
        for number in range(3):
            builder.append(now_ms + number, b"k", b"v")
        partition.append(builder.build(), now_ms)

    append(7)
    append(8, transactional=True)
    append(9, transactional=True)
    marker = build_end_transaction_marker(9, 2, commit=True, coordinator_epoch=5, timestamp_ms=now_ms + 9)
    partition.append(marker, now_ms, AppendOrigin.COORDINATOR)
    append(7, sequence=3)

    assert [
        (
            each.producer_id, each.producer_epoch, each.last_sequence, each.last_timestamp, each.coordinator_epoch,
            each.current_txn_start_offset,
        )
        for each in describe(broker).active_producers
    ] == [(7, 2, 5, now_ms + 2, -1, -1), (8, 2, 2, now_ms + 2, -1, 3), (9, 2, 2, now_ms + 9, 5, -1)]  # fmt: skip


def test_unknown_partitions(broker: DataBroker) -> None:
    broker.topic()
    unknown = describe(broker, "nope")
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert unknown.error_message == "This server does not host this topic-partition."
    assert describe(broker, index=4).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert describe(broker, index=4).error_message is None
    assert (describe(broker).error_code, describe(broker).active_producers) == (0, [])
