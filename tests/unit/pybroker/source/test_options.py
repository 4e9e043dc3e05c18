"""Options of sources and sink: those of Spark's Kafka source, and errors for all others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pybroker.source.bounds import EARLIEST, LATEST, OFFSET, TIMESTAMP, Bound
from pybroker.source.columns import COLUMNS, USUAL
from pybroker.source.errors import UnusableOption
from pybroker.source.log_options import read_log_options
from pybroker.source.sink_options import read_sink_options
from pybroker.source.topic_options import TopicOptions, read_options

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
USED = {**SERVERS, "subscribe": "orders"}


def options(streaming: bool | None = False, **given: str) -> TopicOptions:
    return read_options({**USED, **given}, streaming=streaming)


def test_defaults() -> None:
    """A batch reads everything, a stream new records; lost data is an error."""
    batch = options()

    assert (batch.topics, batch.pattern, batch.assigned) == (["orders"], None, None)
    assert batch.properties == {"bootstrap.servers": "localhost:9092"}
    assert batch.start.usual == Bound(OFFSET, EARLIEST)
    assert batch.end.usual == Bound(OFFSET, LATEST)
    assert batch.fail_on_data_loss
    assert batch.columns == USUAL
    assert options(streaming=True).start.usual == Bound(OFFSET, LATEST)


def test_names_are_case_insensitive() -> None:
    """Spark passes option names in lower case or as written."""
    found = read_options(
        {
            "KAFKA.bootstrap.servers": "localhost:9092",
            "SubscribePattern": "a.*",
            "INCLUDEHEADERS": "TRUE",
            "failondataloss": "false",
            "minPartitions": "5",
            "maxOffsetsPerTrigger": "7",
            "maxRecordsPerPartition": "9",
            "kafka.isolation.level": "read_committed",
        },
        streaming=True,
    )

    assert found.pattern == "a.*"
    assert found.columns == COLUMNS
    assert not found.fail_on_data_loss
    counts = found.min_partitions, found.max_offsets_per_trigger, found.max_records_per_partition
    assert counts == (5, 7, 9)
    assert found.properties["isolation.level"] == "read_committed"


def test_topics_are_subscribed_to_or_assigned() -> None:
    assert options(subscribe=" orders, clicks ").topics == ["orders", "clicks"]
    assert options(subscribe="orders,clicks,orders").topics == [
        "orders",
        "clicks",
    ]  # rows of repeated topics are there once
    assigned = read_options({**SERVERS, "assign": '{"orders": [2, 0, 2]}'}, streaming=False)
    assert assigned.assigned == [("orders", 2), ("orders", 0)]
    assert assigned.wanted["assigned"] == [("orders", 2), ("orders", 0)]


@pytest.mark.parametrize("side", ["starting", "ending"])
def test_offsets_in_all_forms_of_spark(side: str) -> None:
    def bound(partition: int = 0, **given: str) -> Bound:
        found = options(**given)
        return (found.start if side == "starting" else found.end).of("orders", partition)

    assert bound(**{f"{side}Offsets": "earliest"}) == Bound(OFFSET, EARLIEST)
    assert bound(**{f"{side}Offsets": "LATEST"}) == Bound(OFFSET, LATEST)
    each = json.dumps({"orders": {"0": 23, "1": -2, "2": -1}})
    assert [bound(partition, **{f"{side}Offsets": each}).value for partition in range(3)] == [23, EARLIEST, LATEST]
    assert bound(**{f"{side}Timestamp": "1700000000000"}) == Bound(TIMESTAMP, 1_700_000_000_000)
    times = json.dumps({"orders": {"0": 5, "1": 6}})
    assert bound(1, **{f"{side}OffsetsByTimestamp": times}) == Bound(TIMESTAMP, 6)


def test_specific_options_have_priority_as_in_spark() -> None:
    """Timestamps by partition, one timestamp, then offsets."""
    each = {"startingOffsetsByTimestamp": '{"orders": {"0": 5}}'}
    time = {"startingTimestamp": "7"}
    offsets = {"startingOffsets": "latest"}

    assert options(**offsets, **time, **each).start.of("orders", 0) == Bound(TIMESTAMP, 5)
    assert options(**offsets, **time).start.of("orders", 0) == Bound(TIMESTAMP, 7)


def test_start_time_after_all_records_fails_by_default() -> None:
    time = {"startingTimestamp": "7", "endingTimestamp": "9"}

    assert not options(**time).start.late_means_latest
    assert options(**time).end.late_means_latest
    assert options(startingOffsetsByTimestampStrategy="latest", **time).start.late_means_latest


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"subscribe": " , "}, "no topic"),
        ({"assign": '{"orders": [0]}'}, "subscribe, subscribePattern and assign"),
        ({"startingOffset": "earliest"}, "'startingoffset'"),
        ({"kafka.bootstrap.servers": ""}, "not set"),
        ({"kafka.isolation.levle": "read_committed"}, "'kafka.isolation.levle'"),
        ({"startingOffsets": "first"}, "startingOffsets: 'first'"),
        ({"endingOffsets": '{"orders": [1]}'}, "endingOffsets"),
        ({"startingOffsets": '{"orders": {"0": -3}}'}, "-2"),
        ({"startingTimestamp": "noon"}, "'noon' is not a number"),
        ({"startingOffsetsByTimestampStrategy": "first"}, "neither error nor latest"),
        ({"minPartitions": "0"}, "less than 1"),
        ({"failOnDataLoss": "maybe"}, "'maybe'"),
        ({"columns": "key,vlaue"}, "'vlaue'"),
    ],
)
def test_invalid_options_are_named(given: dict[str, str], expected: str) -> None:
    with pytest.raises(UnusableOption, match=expected):
        options(**given)


def test_invalid_assignment_is_named() -> None:
    with pytest.raises(UnusableOption, match="assign"):
        read_options({**SERVERS, "assign": '{"orders": 1}'}, streaming=False)


def test_invalid_pattern_is_named() -> None:
    with pytest.raises(UnusableOption, match=r"subscribePattern: '\['"):
        read_options({**SERVERS, "subscribePattern": "["}, streaming=False)


def test_stream_has_no_end() -> None:
    with pytest.raises(UnusableOption, match="no end"):
        options(streaming=True, endingOffsets="latest")


def test_log_options() -> None:
    found = read_log_options(
        {
            "path": "file:/data",
            "subscribe": "orders,clicks",
            "startingOffset": "5",
            "endingTimestamp": "9",
            "kafka.isolation.level": "read_committed",
            "columns": "offset, value",
        }
    )

    assert (found.place.path, found.topics, found.committed, found.columns) == (
        *("/data", ["orders", "clicks"], True),
        ("offset", "value"),
    )
    assert (found.start.usual, found.end.usual) == (Bound(OFFSET, 5), Bound(TIMESTAMP, 9))
    each = read_log_options(
        {
            "path": "/data",
            "assign": '{"orders": [0, 2]}',
            "startingOffsets": '{"orders": {"0": 5, "2": -2}}',
            "endingOffsets": '{"orders": {"0": 7, "2": -1}}',
        }
    )
    assert each.assigned == [("orders", 0), ("orders", 2)]
    assert [each.start.of("orders", 2), each.end.of("orders", 0)] == [Bound(OFFSET, -2), Bound(OFFSET, 7)]
    usual = read_log_options({"path": "/data"})
    assert (usual.topics, usual.committed, usual.columns) == (None, False, USUAL)
    assert usual.wanted["start"] == usual.start.to_json()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"path": ""}, "no path"),
        ({"paht": "/data"}, "'paht'"),
        ({"startingOffset": "first"}, "first"),
        ({"startingOffset": "3", "startingTimestamp": "4"}, "startingOffset: an offset and a time"),
        ({"kafka.isolation.level": "all"}, "'all'"),
        ({"includeHeaders": "yes"}, "'yes'"),
        ({"assign": "{}", "subscribe": "orders"}, "subscribe and assign"),
        ({"assign": "orders"}, "assign: 'orders'"),
        (
            {"startingOffsets": "{}", "startingOffset": "3"},
            "startingOffsets and another bound of all partitions are given",
        ),
        (
            {"endingOffsets": "{}", "endingTimestamp": "3"},
            "endingOffsets and another bound of all partitions are given",
        ),
        ({"endingOffsets": '{"orders": {"0": -3}}'}, "from 0 on"),
    ],
)
def test_invalid_log_options_are_named(given: dict[str, str], expected: str) -> None:
    with pytest.raises(UnusableOption, match=expected):
        read_log_options({"path": "/data", **given})


def test_sink_options() -> None:
    found = read_sink_options({**SERVERS, "topic": "orders", "kafka.compression.type": "lz4"}, ["key", "value"])

    assert found.topic == "orders"
    assert found.properties == {"bootstrap.servers": "localhost:9092", "compression.type": "lz4"}
    assert read_sink_options(SERVERS, ["value", "topic", "partition", "headers"]).topic is None


@pytest.mark.parametrize(
    ("given", "columns", "expected"),
    [
        ({}, ["value"], "no topic is given"),
        ({"topic": "orders"}, ["key"], "no column value"),
        ({"topic": "orders"}, ["value", "name"], "'name'"),
        ({"topic": "orders", "acks": "0"}, ["value"], "'acks'"),
        ({"topic": "orders", "kafka.bootstrap.servers": ""}, ["value"], "not set"),
        ({"topic": "orders", "kafka.transactional.id": "one"}, ["value"], "'kafka.transactional.id'"),
    ],
)
def test_invalid_sink_options_are_named(given: dict[str, Any], columns: list[str], expected: str) -> None:
    with pytest.raises(UnusableOption, match=expected):
        read_sink_options({**SERVERS, **given}, columns)
