"""Micro-batches in Spark's order of calls, of a topic that grows between any two of them."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from pybroker.source.bounds import LATEST
from pybroker.source.columns import USUAL
from pybroker.source.errors import DataLoss
from pybroker.source.ranges import OffsetRange
from pybroker.source.topic_options import read_options
from pybroker.spark.topic_source import TopicRange, TopicStream

ALL: ReadLimit = ReadAllAvailable()


class BusyTopic:
    """A topic of one partition in place of the reader process: each request finds ten more records in it."""

    def __init__(self, end: int = 100) -> None:
        self.end = end

    def ask(self, do: str, **wanted: Any) -> Any:
        self.end += 10
        if do == "topic_ends":
            return [["t", 0, 0, self.end]]
        assert do == "plan_topics"
        kind, value = wanted["start"]["usual"] or wanted["start"]["each"][0][2:]
        start = self.end if (kind, value) == ("offset", LATEST) or kind == "timestamp" else max(0, value)
        return [{"topic": "t", "partition": 0, "start": start}]


def stream(topic: BusyTopic, **options: str) -> TopicStream:
    given = {"kafka.bootstrap.servers": "b:1", "subscribe": "t", **options}
    made = TopicStream(read_options(given, streaming=True), USUAL)
    made._reader = topic  # type: ignore[assignment]
    return made


def batch(reader: TopicStream, start: dict[str, Any] | None) -> tuple[dict[str, Any], list[OffsetRange]]:
    """Plan and read a batch as Spark does, which asks for the initial offset each time."""
    end = reader.latestOffset(reader.initialOffset() if start is None else start, ALL)
    parts = reader.partitions(reader.initialOffset() if start is None else start, end)
    return end, [each.offsets for each in parts if isinstance(each, TopicRange)]


def test_stream_from_the_end_reads_all_later_records() -> None:
    reader = stream(BusyTopic())

    first, nothing = batch(reader, None)
    assert (first, nothing) == ({"t": {"0": 110}}, [])
    second, ranges = batch(reader, first)
    assert ranges == [OffsetRange("t", 0, 110, second["t"]["0"])]


@pytest.mark.parametrize("option", [{}, {"startingTimestamp": "5", "startingOffsetsByTimestampStrategy": "latest"}])
def test_repeated_first_batch_continues_at_its_end(option: dict[str, str]) -> None:
    """In another process, after new records. None is skipped."""
    topic = BusyTopic()
    first, _ = batch(stream(topic, **option), None)

    again = stream(topic, **option)
    assert again.partitions(again.initialOffset(), first) == []
    second, ranges = batch(again, first)
    assert ranges == [OffsetRange("t", 0, first["t"]["0"], second["t"]["0"])]


def test_first_batch_from_the_beginning_is_full() -> None:
    first, ranges = batch(stream(BusyTopic(), startingOffsets="earliest"), None)

    assert ranges == [OffsetRange("t", 0, 0, first["t"]["0"])]


def test_first_batch_of_another_topic_is_an_error() -> None:
    """Its start is known, and lies behind its end."""
    reader = stream(BusyTopic(), startingOffsets='{"t": {"0": 50}}')

    assert reader.initialOffset() == {"t": {"0": 50}}
    with pytest.raises(DataLoss, match="from offset 50 to 20"):
        reader.partitions(reader.initialOffset(), {"t": {"0": 20}})


def test_available_now_ends_where_the_topic_ended() -> None:
    """When the query started, or at its start offset if that is the later end."""
    reader = stream(BusyTopic(), startingOffsets="earliest")
    reader.prepareForTriggerAvailableNow()
    first, _ = batch(reader, None)
    assert (first, batch(reader, first)) == ({"t": {"0": 110}}, (first, []))

    reader = stream(BusyTopic())
    reader.prepareForTriggerAvailableNow()
    first, _ = batch(reader, None)
    assert (first, batch(reader, first)) == ({"t": {"0": 120}}, (first, []))


def test_limit_counts_from_the_streams_position() -> None:
    reader = stream(BusyTopic(), startingOffsets="earliest")

    assert reader.latestOffset(reader.initialOffset(), ReadMaxRows(7)) == {"t": {"0": 7}}
