"""Producers, consumers and background tasks as the documents describe them, over real logs without sockets."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.maintenance.log_scheduler import TICK_MS
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.records.entries import iter_records
from protocol.records.record import Record
from storage.fetch_slice import FetchSlice
from storage.log_config import LONG_MAX, LogConfig
from tests.support.data_broker import TOPIC_ID, DataBroker
from tests.support.logs import batch
from tests.support.one_connection import OneConnection


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[DataBroker]:
    made = DataBroker(tmp_path)
    yield made
    made.close()


def produce(broker: DataBroker, *values: bytes, index: int = 0, acks: int = -1) -> int:
    """Send a batch. Return the error code of the response."""
    records = bytes(batch(*values, timestamp=broker.clock.now_ms()))
    topic = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=index, records=records)])
    answer = broker.call(PRODUCE, 9, acks=acks, timeout_ms=1000, topic_data=[topic])
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


def fetch(broker: DataBroker, offset: int, index: int = 0, max_bytes: int = 1 << 20) -> tuple[list[Record], int]:
    """Return (records, high watermark) for a consumer that does not wait."""
    wanted = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes)
    topics = [FetchTopic(topic="t", partitions=[wanted])]
    answer = broker.call(FETCH, 11, max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, session_epoch=-1, topics=topics)
    (partition,) = answer.responses[0].partitions
    return list(iter_records(partition.records or b"")), partition.high_watermark


def test_each_partition_counts_for_itself(broker: DataBroker) -> None:
    """S2.8: order holds within a partition. Batches sent alternately to two partitions start from offset 0 in both."""
    broker.topic(partitions=2)
    for number in range(10):
        produce(broker, b"%d" % number, index=number % 2)
    found = [[(record.offset, record.value) for record in fetch(broker, 0, index)[0]] for index in (0, 1)]

    assert found == [[(turn, b"%d" % (2 * turn + index)) for turn in range(5)] for index in (0, 1)]


def test_the_leaders_write_is_enough_for_acks_1(broker: DataBroker) -> None:
    """S10.4, S10.6: a replica has fallen behind. acks=1 is accepted, acks=all is rejected if two must be in sync."""
    partition = broker.topic(config=LogConfig(min_insync_replicas=2), replicas=[1, 2], isr=[1])

    assert produce(broker, b"value", acks=1) == ErrorCode.NONE
    assert produce(broker, b"value") == ErrorCode.NOT_ENOUGH_REPLICAS
    assert partition.log_end_offset == 1


def test_consumers_go_at_their_own_pace(broker: DataBroker) -> None:
    """S11.1: nothing is sent unrequested. A consumer that reads one batch of three falls behind, in order."""
    broker.topic()
    position, lags = 0, []
    for turn in range(20):
        for number in range(3):
            produce(broker, b"%d" % (3 * turn + number))
        records, high_watermark = fetch(broker, position, max_bytes=1)
        assert [record.offset for record in records] == [position]
        position += 1
        lags.append(high_watermark - position)

    assert lags == [2 + 2 * turn for turn in range(20)]
    assert [record.value for record in fetch(broker, position)[0]] == [b"%d" % number for number in range(20, 60)]


def test_consumers_see_what_lies_below_the_high_watermark(broker: DataBroker) -> None:
    """S11.3: records that only the leader has stay hidden. Once the high watermark moves on, consumers see them."""
    partition = broker.topic()
    partition.log.replicated = True
    for number in range(5):
        produce(broker, b"%d" % number, acks=1)
    partition.log.advance_high_watermark(2)
    assert partition.log_end_offset == 5
    assert [record.offset for record in fetch(broker, 0)[0]] == [0, 1]
    partition.log.advance_high_watermark(5)
    assert [record.offset for record in fetch(broker, 0)[0]] == [0, 1, 2, 3, 4]


def test_retention_is_checked_in_its_interval(tmp_path: Path) -> None:
    """S14.4: log.retention.check.interval.ms, after log.initial.task.delay.ms. Nothing is deleted in between."""
    broker = DataBroker(tmp_path, {"log.retention.check.interval.ms": 60_000, "log.initial.task.delay.ms": 0})
    broker.background.start()
    partition = broker.topic(config=LogConfig(segment_bytes=400, retention_bytes=500))
    broker.advance(TICK_MS)
    for _ in range(10):
        produce(broker, bytes(100))
    broker.advance(60_000 - 2 * TICK_MS)
    assert partition.log_start_offset == 0
    broker.advance(3 * TICK_MS)
    assert partition.log_start_offset > 0


def test_a_deletion_blocks_no_request(broker: DataBroker) -> None:
    """S14.19: another thread has not deleted the files yet, and the broker appends and serves records meanwhile."""
    broker.background.start()
    partition = broker.topic(config=LogConfig(segment_bytes=400, retention_bytes=500, file_delete_delay_ms=0))
    for _ in range(10):
        produce(broker, bytes(100))
    broker.background.held = True
    broker.advance(40_000)
    directory = Path(partition.log.path)
    assert partition.log_start_offset > 0
    assert (directory / f"{0:020d}.log").exists()
    assert produce(broker, b"more") == ErrorCode.NONE
    assert [record.offset for record in fetch(broker, partition.log_start_offset)[0]][-1:]
    broker.background.held = False
    broker.background.release()
    broker.advance(40_000)
    assert not list(directory.glob(f"{0:020d}.*"))


def test_the_scheduler_checks_whether_to_flush(tmp_path: Path) -> None:
    """S16.4: log.flush.scheduler.interval.ms. flush.ms takes effect at a check, at the latest after a second."""
    points = {}
    for interval_ms in (100, LONG_MAX):
        root = tmp_path / str(interval_ms)
        root.mkdir()
        broker = DataBroker(root, {"log.flush.scheduler.interval.ms": interval_ms})
        broker.background.start()
        partition = broker.topic(config=LogConfig(flush_ms=50))
        broker.advance(1)
        produce(broker, b"value")
        broker.advance(200)
        points[interval_ms] = partition.log.recovery_point
        broker.advance(TICK_MS)
        assert partition.log.recovery_point == 1

    assert points == {100: 1, LONG_MAX: 0}


def test_records_go_from_the_file_to_the_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S17.10, S17.11, S1.10: sendfile sends from the segment. The process reads none of the sent bytes."""
    sent: list[tuple[str, int, int]] = []
    sendfile = os.sendfile

    def watched(out: int, file: int, position: int, size: int) -> int:
        sent.append((os.readlink(f"/proc/self/fd/{file}"), position, size))
        return sendfile(out, file, position, size)

    monkeypatch.setattr(os, "sendfile", watched)
    monkeypatch.setattr(FetchSlice, "read", lambda *args: pytest.fail("the records were read"))
    with OneConnection(tmp_path) as connection:
        partition = connection.broker.topic()
        records = bytes(batch(bytes(20_000), timestamp=connection.broker.clock.now_ms()))
        for _ in range(3):
            partition.append(bytearray(records), connection.broker.clock.now_ms())
        wanted = FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1 << 20)
        answer = connection.call(
            FETCH,
            17,
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[wanted])],
        )

    assert len(answer.responses[0].partitions[0].records) == 2 * len(records)
    assert sent == [(f"{partition.log.path}/{0:020d}.log", len(records), 2 * len(records))]


def test_flush_is_left_to_the_system_unless_asked_for() -> None:
    """S16.2, S16.3: by default neither a number of messages nor a time triggers a flush."""
    assert (LogConfig().flush_messages, LogConfig().flush_ms) == (LONG_MAX, LONG_MAX)
