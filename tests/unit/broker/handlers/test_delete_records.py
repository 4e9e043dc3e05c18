"""DeleteRecords moves the log start offset up, where the topic allows it."""

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.delete_records import DELETE_RECORDS, DeleteRecordsPartition, DeleteRecordsTopic
from protocol.records.builder import BatchBuilder
from storage.log_config import LogConfig
from tests.support.data_broker import DataBroker


def fill(broker: DataBroker, topic: str = "t", config: LogConfig | None = None) -> None:
    partition = broker.topic(topic, config=config, topic_id=topic.encode().ljust(16, b"-")[:16])
    builder = BatchBuilder()
    for _ in range(10):
        builder.append(broker.clock.now_ms(), b"k", b"v")
    partition.append(builder.build(), broker.clock.now_ms())


def delete(broker: DataBroker, offset: int, *, topic: str = "t", index: int = 0, version: int = 2) -> tuple[int, int]:
    """Return (error code, low watermark)."""
    wanted = DeleteRecordsPartition(partition_index=index, offset=offset)
    response = broker.call(
        DELETE_RECORDS, version, timeout_ms=1000, topics=[DeleteRecordsTopic(name=topic, partitions=[wanted])]
    )
    [answer] = response.topics[0].partitions
    assert answer.partition_index == index
    return answer.error_code, answer.low_watermark


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_log_start_moves_up_and_never_down(broker: DataBroker, version: int) -> None:
    """Apache Kafka answered the same steps in the same way; -1 stands for the high watermark."""
    fill(broker)
    steps = [(4, (0, 4)), (2, (0, 4)), (0, (0, 4)), (-2, (1, -1)), (11, (1, -1)), (-1, (0, 10)), (10, (0, 10))]
    for offset, answer in steps:
        assert delete(broker, offset, version=version) == answer, offset


def test_compacted_only_topics_keep_their_records(broker: DataBroker) -> None:
    fill(broker, "compacted", LogConfig(cleanup_policy=frozenset({"compact"})))
    fill(broker, "both", LogConfig(cleanup_policy=frozenset({"compact", "delete"})))

    assert delete(broker, 1, topic="compacted") == (ErrorCode.POLICY_VIOLATION, -1)
    assert delete(broker, 1, topic="both") == (0, 1)


def test_internal_topics_keep_their_records(broker: DataBroker) -> None:
    fill(broker, "__consumer_offsets")
    assert delete(broker, 1, topic="__consumer_offsets") == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)


def test_unknown_partitions(broker: DataBroker) -> None:
    fill(broker)
    assert delete(broker, 1, topic="nope") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert delete(broker, 1, index=3) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


def test_a_repeated_partition_is_answered_once(broker: DataBroker) -> None:
    """The last offset counts, as in Kafka."""
    fill(broker)
    topics = [
        DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=o) for o in offsets])
        for offsets in ((5, 3), (4,))
    ]
    response = broker.call(DELETE_RECORDS, 2, timeout_ms=1000, topics=topics)
    assert [(topic.name, [each.low_watermark for each in topic.partitions]) for topic in response.topics] == [
        ("t", [4])
    ]
