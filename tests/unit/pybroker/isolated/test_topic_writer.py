"""Rows into topics: partitions, batches, sequences, and what is sent again."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.init_producer_id import INIT_PRODUCER_ID
from protocol.messages.produce import PRODUCE
from protocol.records.batch import parse_header
from protocol.records.compression import Codec
from protocol.schema import Struct
from pybroker.isolated import topic_writer
from pybroker.isolated.connection import ConnectionFailed
from pybroker.isolated.partitioner import partition_of
from pybroker.isolated.serving import serve
from pybroker.source.columns import arrow_schema
from pybroker.source.errors import BrokerFailed, SourceError, UnknownPartition, UnusableOption, from_json
from pybroker.source.frames import ANSWER, BATCH, REQUEST, read_frame, write_frame, write_json
from tests.support.broker_double import PROPERTIES, TOPIC, BrokerDouble

Row = dict[str, Any]


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[BrokerDouble]:
    with BrokerDouble(3).installed(monkeypatch) as broker:
        yield broker


def begun(
    *batches: Sequence[Row], columns: Sequence[str] = ("key", "value"), topic: str | None = TOPIC, **properties: str
) -> io.BytesIO:
    """A request and rows, as a task hands them over; without the frame that says that these are all."""
    asked = io.BytesIO()
    wanted = {"columns": columns, "topic": topic, "properties": {**PROPERTIES, **properties}}
    write_json(asked, REQUEST, {"do": "write_topic", **wanted})
    for rows in batches:
        write_frame(asked, BATCH, pa.RecordBatch.from_pylist(rows, arrow_schema(columns)).serialize())
    return asked


def write(*batches: Sequence[Row], **wanted: Any) -> int:
    """How many of the rows were acknowledged; wanted: as `begun`."""
    asked, told = begun(*batches, **wanted), io.BytesIO()
    write_json(asked, ANSWER, {})
    asked.seek(0)
    serve(asked, told)
    assert asked.read() == b"", "whoever sends rows is not left waiting"
    told.seek(0)
    frame = read_frame(told)
    assert frame is not None
    if frame[0] != ANSWER:
        raise from_json(json.loads(frame[1]))
    count: int = json.loads(frame[1])["count"]
    return count


def values(broker: BrokerDouble, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in broker.records(partition)]


def test_rows_with_keys_go_to_their_partitions_in_order(broker: BrokerDouble) -> None:
    rows = [{"key": b"%d" % (number % 10), "value": b"%d" % number} for number in range(100)]

    assert write(rows[:40], rows[40:]) == 100

    for partition in range(3):
        here = [row["value"] for row in rows if partition_of(row["key"], 3) == partition]
        assert here
        assert values(broker, partition) == here


def test_rows_without_keys_fill_one_batch_after_the_other(broker: BrokerDouble) -> None:
    """Each batch on another partition, as Kafka's sticky partitioner has it; none above 512 KiB."""
    large = [{"value": bytes(100_000)} for _ in range(20)]

    assert write(large, columns=("value",)) == 20

    sizes = [len(batch) for partition in broker.partitions for batch in partition.batches]
    assert len(sizes) == 4
    assert max(sizes) <= 512 << 10
    assert all(partition.batches for partition in broker.partitions)


@pytest.mark.parametrize("turn", [0, 1, 2, 3_000_001])
def test_rows_without_keys_begin_where_a_tasks_turn_says(
    broker: BrokerDouble, monkeypatch: pytest.MonkeyPatch, turn: int
) -> None:
    """A random one: many tasks have less than a batch, and these are not to go all to the first partition."""
    monkeypatch.setattr(topic_writer, "randrange", lambda turns: turn)

    write([{"value": b"first"}], [{"value": b"second"}], columns=("value",))

    assert values(broker, turn % 3) == [b"first", b"second"]


def test_row_that_is_larger_than_a_batch_goes_alone(broker: BrokerDouble) -> None:
    write([{"key": b"k", "value": value} for value in (b"small", bytes(900_000), b"last")])

    partition = broker.partitions[partition_of(b"k", 3)]
    assert [parse_header(batch).record_count for batch in partition.batches] == [1, 1, 1]


def test_row_may_name_its_partition_and_topic(broker: BrokerDouble) -> None:
    columns = ("topic", "partition", "value")
    rows = [
        {"topic": TOPIC, "partition": 2, "value": b"two"},
        {"topic": TOPIC, "partition": 0, "value": None},
    ]
    assert write(rows, columns=columns, topic=None) == 2
    assert (values(broker, 0), values(broker, 1), values(broker, 2)) == ([None], [], [b"two"])

    with pytest.raises(UnknownPartition, match="orders-3"):
        write([{"topic": TOPIC, "partition": 3, "value": b""}], columns=columns, topic=None)
    with pytest.raises(SourceError, match="no topic"):
        write([{"topic": None, "partition": 0, "value": b""}], columns=columns, topic=None)


def test_option_comes_before_a_rows_own_topic(broker: BrokerDouble) -> None:
    write([{"topic": "missing", "value": b"here"}], columns=("topic", "value"))

    assert [value for partition in range(3) for value in values(broker, partition)] == [b"here"]
    with pytest.raises(UnknownPartition, match="missing"):
        write([{"value": b""}], columns=("value",), topic="missing")


def test_headers_go_along(broker: BrokerDouble) -> None:
    headers = [{"key": "a", "value": b"1"}, {"key": "b", "value": None}]
    write([{"key": b"k", "value": b"", "headers": headers}], columns=("key", "value", "headers"))

    [record] = broker.records(partition_of(b"k", 3))
    assert record.headers == (("a", b"1"), ("b", None))


@pytest.mark.parametrize("header", [None, {"key": None, "value": b"1"}])
def test_header_without_a_name_is_refused(broker: BrokerDouble, header: dict[str, Any] | None) -> None:
    rows = [{"value": b"fine", "headers": []}, {"value": b"odd", "headers": [header]}]

    with pytest.raises(SourceError, match="header without a name"):
        write(rows, columns=("value", "headers"))
    assert broker.asked(PRODUCE) == []


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_codec_is_chosen_by_the_producers_property(broker: BrokerDouble, codec: str) -> None:
    write([{"key": b"k", "value": b"value" * 100}], **{"compression.type": codec})

    [batch] = broker.partitions[partition_of(b"k", 3)].batches
    assert parse_header(batch).codec == Codec[codec.upper()]
    with pytest.raises(UnusableOption, match="'brotli'"):
        write([], **{"compression.type": "brotli"})


def test_sequences_go_on_and_what_is_sent_again_is_the_same(broker: BrokerDouble) -> None:
    """So that a broker writes it once."""
    broker.fail(PRODUCE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ConnectionFailed)
    write([{"key": b"k", "value": bytes(300_000)} for _ in range(3)])

    sent = [fields["topic_data"][0].partition_data[0].records for fields in broker.asked(PRODUCE)]
    assert sent[0] == sent[1] == sent[2]
    headers = [parse_header(batch) for batch in sent[2:]]
    assert [header.base_sequence for header in headers] == [0, 1, 2]
    assert {(header.producer_id, header.producer_epoch) for header in headers} == {(4711, 3)}
    assert len(broker.asked(INIT_PRODUCER_ID)) == 1
    assert {fields["acks"] for fields in broker.asked(PRODUCE)} == {-1}


class SmallTopic(BrokerDouble):
    """Takes so many bytes at once, as max.message.bytes or segment.bytes say."""

    most_bytes = 20_000

    def _produce(self, fields: dict[str, Any], code: int) -> Struct:
        [part] = fields["topic_data"][0].partition_data
        too_large = len(part.records) > self.most_bytes
        return super()._produce(fields, ErrorCode.RECORD_LIST_TOO_LARGE if too_large else code)


def test_topic_that_takes_small_batches_gets_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """By halves until one is small enough; then no more than that at once. Each row once, in order."""
    rows = [{"key": b"k", "value": b"%05d" % number * 200} for number in range(200)]
    with SmallTopic(3).installed(monkeypatch) as broker:
        assert write(rows[:120], rows[120:]) == 200

    partition = partition_of(b"k", 3)
    assert values(broker, partition) == [row["value"] for row in rows]
    assert [record.sequence for record in broker.records(partition)] == list(range(200))
    assert len(broker.asked(PRODUCE)) - len(broker.partitions[partition].batches) < 10, "learnt once"


def test_row_that_the_topic_does_not_take_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"key": b"k", "value": bytes(size)} for size in (10, 30_000, 10)]
    with SmallTopic(3).installed(monkeypatch) as broker, pytest.raises(BrokerFailed, match="orders"):
        write(rows)
    assert values(broker, partition_of(b"k", 3)) == [bytes(10)]


def test_refusal_is_told_once_all_rows_have_come(broker: BrokerDouble) -> None:
    broker.fail(PRODUCE, ErrorCode.INVALID_RECORD)

    with pytest.raises(BrokerFailed, match="orders"):
        write(*[[{"key": b"k", "value": bytes(300_000)}]] * 4)


def test_nothing_to_write_asks_nothing(broker: BrokerDouble) -> None:
    assert write() == 0
    assert broker.calls == []


@pytest.mark.parametrize("tail", [b"", BATCH], ids=["between frames", "within a frame"])
def test_rows_that_break_off_are_not_sent(broker: BrokerDouble, tail: bytes) -> None:
    """A task that failed or was cancelled: nobody waits for an answer, and half of its rows are of no use."""
    asked, told = begun([{"key": b"k", "value": b"half"}]), io.BytesIO()
    asked.write(tail)
    asked.seek(0)

    serve(asked, told)

    assert told.getvalue() == b""
    assert broker.asked(PRODUCE) == []


def test_another_request_is_not_the_end_of_the_rows(broker: BrokerDouble) -> None:
    asked = begun([{"key": b"k", "value": b"half"}])
    asked.write(begun([{"key": b"k", "value": b"next"}]).getvalue())
    asked.seek(0)

    with pytest.raises(SystemExit, match="where rows should be"):
        serve(asked, io.BytesIO())
    assert broker.asked(PRODUCE) == []
