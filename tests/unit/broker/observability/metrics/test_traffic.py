"""Bytes and records in and out, as the logs count them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.observability.metrics.metric import Metric
from broker.observability.metrics.metric_table import BYTES_IN, BYTES_OUT, MESSAGES_IN
from broker.observability.metrics.traffic import Counts, Traffic
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic
from protocol.records.builder import BatchBuilder
from storage.log_config import LogConfig
from tests.support.data_broker import TOPIC_ID, DataBroker

OTHER_ID = b"other--id-16byte"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[DataBroker]:
    broker = DataBroker(tmp_path)
    yield broker
    broker.close()


def append(broker: DataBroker, topic: str, index: int = 0, records: int = 1) -> int:
    """Append a batch; return its size."""
    builder = BatchBuilder()
    for _ in range(records):
        builder.append(broker.clock.now_ms(), None, b"x" * 100, ())
    data = bytearray(builder.build())
    partition = broker.partitions.get(topic, index)
    assert partition is not None
    partition.append(data, broker.clock.now_ms())
    return len(data)


def total(traffic: Traffic, broker: DataBroker) -> Counts:
    """Return the total of all topics, the sum of its parts."""
    found: dict[Metric, float] = dict.fromkeys((MESSAGES_IN, BYTES_IN, BYTES_OUT), 0)
    for metric, _, value in traffic.total([partition.log for partition in broker.partitions]):
        assert isinstance(value, int)
        found[metric] += value
    return Counts(*map(int, found.values()))


def totals(traffic: Traffic, broker: DataBroker) -> dict[str, Counts]:
    """Return the totals by topic; "" is the sum, which is also taken alone before and after."""
    before = total(traffic, broker)
    for partition in broker.partitions:
        traffic.note(partition.log)
    found: dict[str, list[float]] = {}
    for _, labels, value in traffic.samples({partition.topic for partition in broker.partitions}):
        assert isinstance(value, int)
        found.setdefault("".join(labels), []).append(value)
    by_topic = {topic: Counts(*map(int, values)) for topic, values in found.items()}
    assert before == by_topic[""] == total(traffic, broker)
    return by_topic


def test_records_and_bytes_are_summed_by_topic(broker: DataBroker) -> None:
    broker.topic("t", 2)
    broker.topic("u", topic_id=OTHER_ID)
    size = append(broker, "t", 0, 3) + append(broker, "t", 1)
    other = append(broker, "u")

    found = totals(Traffic(), broker)

    assert found == {"t": Counts(4, size, 0), "u": Counts(1, other, 0), "": Counts(5, size + other, 0)}


def test_records_before_the_start_are_not_counted(broker: DataBroker, tmp_path: Path) -> None:
    broker.topic("t")
    append(broker, "t")
    broker.close()
    again = DataBroker(tmp_path)
    again.topic("t")
    size = append(again, "t")

    assert totals(Traffic(), again)["t"] == Counts(1, size, 0)
    again.close()


def test_bytes_keep_counting_when_segments_are_deleted(broker: DataBroker) -> None:
    """Each batch has its segment; retention deletes all but the last."""
    broker.topic("t", config=LogConfig(segment_bytes=200, retention_ms=1000))
    size = sum(append(broker, "t") for _ in range(3))
    traffic = Traffic()
    broker.advance(5000)
    broker.background.retain()
    broker.settle()
    size += append(broker, "t")
    partition = broker.partitions.get("t", 0)

    assert partition is not None
    assert partition.log.size_bytes < size
    assert totals(traffic, broker)["t"] == Counts(4, size, 0)


def test_deleted_topic_stays_in_the_sum_only(broker: DataBroker) -> None:
    """With records appended after the last reading: a closed log is read once more."""
    broker.topic("t")
    traffic = Traffic()
    size = append(broker, "t")
    totals(traffic, broker)
    size += append(broker, "t")
    broker.partitions.delete("t")

    assert totals(traffic, broker) == {"": Counts(2, size, 0)}
    assert totals(traffic, broker) == {"": Counts(2, size, 0)}


def test_deleted_topic_is_not_held_by_readers_of_totals(broker: DataBroker) -> None:
    broker.topic("t")
    traffic = Traffic()
    size = append(broker, "t")
    assert total(traffic, broker) == Counts(1, size, 0)
    broker.partitions.delete("t")
    broker.settle()
    assert total(traffic, broker) == Counts(1, size, 0)
    assert traffic._logs == {}


def test_total_of_many_logs_is_read_in_parts(broker: DataBroker) -> None:
    """A log that is closed meanwhile counts once."""
    broker.topic("t", 250)
    size = sum(append(broker, "t", index) for index in range(250))
    traffic = Traffic()
    parts = traffic.total([partition.log for partition in broker.partitions])
    bytes_in = [next(value for metric, _, value in parts if metric is BYTES_IN) for _ in range(2)]
    broker.partitions.delete("t")
    assert {labels for _, labels, _ in traffic.samples(())} == {()}  # closed logs have been added already
    bytes_in += [value for metric, _, value in parts if metric is BYTES_IN]

    assert len(bytes_in) == 4  # counts of closed logs, and of a limited number of open ones each
    assert sum(map(int, bytes_in)) == size  # type: ignore[arg-type]


@pytest.mark.parametrize("partitions", [1, 2])
def test_fetched_bytes_are_those_of_responses(broker: DataBroker, partitions: int) -> None:
    """By the fast path for one partition, and by the handler."""
    broker.topic("t", 2)
    size = append(broker, "t")
    topics = [
        FetchTopic(
            topic_id=TOPIC_ID,
            partitions=[FetchPartition(partition=index, partition_max_bytes=1 << 20) for index in range(partitions)],
        )
    ]

    for _ in range(2):
        broker.call(FETCH, 17, max_bytes=1 << 20, min_bytes=1, max_wait_ms=0, session_epoch=-1, topics=topics)

    assert totals(Traffic(), broker)[""].bytes_out == 2 * size
