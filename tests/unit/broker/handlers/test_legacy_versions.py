"""The first versions of the other data APIs, which Kafka 4 removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.describe_log_dirs import DESCRIBE_LOG_DIRS
from protocol.messages.list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsTopic
from protocol.messages.offset_for_leader_epoch import (
    OFFSET_FOR_LEADER_EPOCH,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from protocol.schema import Struct
from storage.log_config import LogConfig
from tests.support.data_broker import DataBroker
from tests.support.logs import T0, batch


def offsets(broker: DataBroker, timestamp: int, limit: int = 10, name: str = "t", replica_id: int = -1) -> Struct:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp, max_num_offsets=limit)
    topics = [ListOffsetsTopic(name=name, partitions=[wanted])]
    return broker.call(LIST_OFFSETS, 0, replica_id=replica_id, topics=topics).topics[0].partitions[0]


def test_list_offsets_v0_returns_base_offsets_of_segments(broker: DataBroker) -> None:
    """The newest comes first, behind the end of the log. The segment's last modification decides."""
    partition = broker.topic(config=LogConfig(segment_bytes=200))
    assert offsets(broker, -1).old_style_offsets == [0]
    for _ in range(3):
        partition.append(batch(b"a" * 100, b"b" * 20), T0)

    assert offsets(broker, -1).old_style_offsets == [6, 4, 2, 0]
    assert offsets(broker, -1, limit=2).old_style_offsets == [6, 4]
    assert offsets(broker, -1, limit=0).old_style_offsets == []
    assert offsets(broker, -2).old_style_offsets == [0]
    assert offsets(broker, 1000).old_style_offsets == []
    modified = max(path.stat().st_mtime_ns // 1_000_000 for path in Path(partition.log.path).glob("*.log"))
    assert offsets(broker, modified + 1).old_style_offsets[-3:] == [4, 2, 0]


def test_list_offsets_v0_rejects_the_same_as_kafka(broker: DataBroker) -> None:
    """Special timestamps of later versions, and a negative number of offsets. A repeated partition is answered."""
    broker.topic()

    assert offsets(broker, -3).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert offsets(broker, -1, limit=-1).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    wanted = ListOffsetsPartition(partition_index=0, timestamp=-1, max_num_offsets=1)
    topics = [ListOffsetsTopic(name="t", partitions=[wanted, wanted])]
    [topic] = broker.call(LIST_OFFSETS, 0, replica_id=-1, topics=topics).topics
    assert [each.old_style_offsets for each in topic.partitions] == [[0]]


def test_v0_ends_at_the_high_watermark_for_consumers(broker: DataBroker) -> None:
    partition = broker.topic()
    partition.log.replicated = True
    partition.append(batch(b"a", b"b"), T0)

    assert offsets(broker, -1).old_style_offsets == [0, 0]
    assert offsets(broker, -1, replica_id=-2).old_style_offsets == [2, 0]
    assert offsets(broker, -1, name="nope").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [0, 1])
def test_offset_for_leader_epoch(broker: DataBroker, version: int) -> None:
    """Requests have no current leader epoch, which came with v2."""
    broker.topic().append(batch(b"a"), T0)
    topics = [OffsetForLeaderTopic(topic="t", partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=0)])]

    answer = broker.call(OFFSET_FOR_LEADER_EPOCH, version, topics=topics).topics[0].partitions[0]

    assert (answer.error_code, answer.end_offset) == (ErrorCode.NONE, 1)
    assert answer.leader_epoch == (0 if version else -1)


def test_describe_log_dirs(broker: DataBroker) -> None:
    broker.topic()

    [directory] = broker.call(DESCRIBE_LOG_DIRS, 0, topics=None).results
    assert [topic.name for topic in directory.topics] == ["t"]
