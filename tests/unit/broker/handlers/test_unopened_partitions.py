"""Requests with some partitions whose log cannot be opened now. Only those partitions get an error."""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.delete_records import DELETE_RECORDS, DeleteRecordsPartition, DeleteRecordsTopic
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic
from protocol.messages.list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsTopic
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from storage import unopened_logs
from tests.support.data_broker import DataBroker
from tests.support.logs import batch
from tests.support.offered import dispatcher_for

OFFLINE = ErrorCode.KAFKA_STORAGE_ERROR
SOME_OFFLINE = [(0, ErrorCode.NONE), (1, OFFLINE), (2, ErrorCode.NONE)]


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DataBroker]:
    """Three unopened partitions. There is no file descriptor for the log of t-1."""
    made = DataBroker(tmp_path)
    made.topic("t", 3)
    made.close()
    broker = DataBroker(tmp_path, may_wait=True)
    broker.topic("t", 3, is_new=False)
    load_log = unopened_logs.load_log

    def open_some(directory: Any, stored: Any, *args: Any, **named: Any) -> Any:
        if stored.partition == 1:
            raise OSError(errno.EMFILE, "Too many open files")
        return load_log(directory, stored, *args, **named)

    monkeypatch.setattr(unopened_logs, "load_log", open_some)
    yield broker
    broker.close()


def produce(broker: DataBroker, *indexes: int) -> list[tuple[int, int]]:
    data = [PartitionProduceData(index=index, records=bytes(batch())) for index in indexes]
    topics = [TopicProduceData(name="t", partition_data=data)]
    answer = broker.call(PRODUCE, 9, acks=-1, timeout_ms=1000, topic_data=topics)
    return [(each.index, each.error_code) for each in answer.responses[0].partition_responses]


def test_produce(broker: DataBroker) -> None:
    """The response has the offsets of the other partitions."""
    assert produce(broker, 0, 1, 2) == SOME_OFFLINE


def test_a_produce_over_the_opening_limit_of_a_turn(broker: DataBroker) -> None:
    """The producer gets a retriable error. With acks=0 the log is still opened."""
    broker.partitions._may_open = lambda: False
    assert produce(broker, 0) == [(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    for index in (0, 2):
        data = [PartitionProduceData(index=index, records=bytes(batch()))]
        topics = [TopicProduceData(name="t", partition_data=data)]
        assert broker.send(PRODUCE, 9, acks=0, timeout_ms=1000, topic_data=topics) is None
    assert [broker.logs.logs["t", index].log_end_offset for index in (0, 2)] == [1, 1]


def test_fetch(broker: DataBroker) -> None:
    partitions = [FetchPartition(partition=each, fetch_offset=0, partition_max_bytes=1000) for each in range(3)]
    topics = [FetchTopic(topic="t", partitions=partitions)]
    answer = broker.call(FETCH, 11, max_wait_ms=0, min_bytes=0, max_bytes=1000, topics=topics)
    assert [(each.partition_index, each.error_code) for each in answer.responses[0].partitions] == SOME_OFFLINE


def test_list_offsets(broker: DataBroker) -> None:
    partitions = [ListOffsetsPartition(partition_index=each, timestamp=-1) for each in range(3)]
    topics = [ListOffsetsTopic(name="t", partitions=partitions)]
    answer = broker.call(LIST_OFFSETS, 5, replica_id=-1, isolation_level=0, topics=topics)
    assert [(each.partition_index, each.error_code) for each in answer.topics[0].partitions] == SOME_OFFLINE


def test_delete_records(broker: DataBroker) -> None:
    topics = [
        DeleteRecordsTopic(
            name="t", partitions=[DeleteRecordsPartition(partition_index=each, offset=0) for each in range(3)]
        )
    ]
    answer = broker.call(DELETE_RECORDS, 2, topics=topics, timeout_ms=1000)
    assert [(each.partition_index, each.error_code) for each in answer.topics[0].partitions] == SOME_OFFLINE


@pytest.mark.parametrize("index", [0, 1])
def test_the_fast_path_of_a_single_partition(broker: DataBroker, index: int) -> None:
    """The connection stays open."""
    dispatcher = dispatcher_for(broker)
    connection: Any = SimpleNamespace(
        client_host="127.0.0.1", local_host="10.0.0.1", local_port=9092, listener_name="L", principal=None
    )
    data = [PartitionProduceData(index=index, records=bytes(batch()))]
    request = PRODUCE.request(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=data)])
    header = struct.pack(">hhih", PRODUCE.key, 9, 1, -1) + b"\0"
    dispatcher.dispatch(connection, memoryview(bytearray(header + PRODUCE.request.encode(9, request))))
    assert produce(broker, index) == [(index, OFFLINE if index else ErrorCode.NONE)]
    end = broker.partitions.get("t", 0)
    assert end is not None
    assert end.log_end_offset == (2 if index == 0 else 0)
