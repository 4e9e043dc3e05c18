"""Rows written to topics: partitions, batches, sequences, retries."""

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
from protocol.murmur2 import partition_of
from protocol.records.batch import parse_header
from protocol.records.compression import Codec
from protocol.schema import Struct
from pybroker.isolated import topic_writer
from pybroker.isolated.connection import ConnectionFailed
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
    """Return a request and its rows without the final frame, as a task sends them."""
    asked = io.BytesIO()
    wanted = {"columns": columns, "topic": topic, "properties": {**PROPERTIES, **properties}}
    write_json(asked, REQUEST, {"do": "write_topic", **wanted})
    for rows in batches:
        write_frame(asked, BATCH, pa.RecordBatch.from_pylist(rows, arrow_schema(columns)).serialize())
    return asked


def write(*batches: Sequence[Row], **wanted: Any) -> int:
    """Write the rows as `begun` sends them; return how many were acknowledged."""
    asked, answer = begun(*batches, **wanted), io.BytesIO()
    write_json(asked, ANSWER, {})
    asked.seek(0)
    serve(asked, answer)
    assert asked.read() == b"", "rows are left unread"
    answer.seek(0)
    frame = read_frame(answer)
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


def test_rows_without_keys_fill_batches_in_turn(broker: BrokerDouble) -> None:
    """Each batch goes to another partition, as with Kafka's sticky partitioner. None is above 512 KiB."""
    large = [{"value": bytes(100_000)} for _ in range(20)]

    assert write(large, columns=("value",)) == 20

    sizes = [len(batch) for partition in broker.partitions for batch in partition.batches]
    assert len(sizes) == 4
    assert max(sizes) <= 512 << 10
    assert all(partition.batches for partition in broker.partitions)


@pytest.mark.parametrize("turn", [0, 1, 2, 3_000_001])
def test_first_partition_without_keys_is_that_of_the_task(
    broker: BrokerDouble, monkeypatch: pytest.MonkeyPatch, turn: int
) -> None:
    """It is random: many tasks write less than a batch, which must not all go to partition 0."""
    monkeypatch.setattr(topic_writer, "randrange", lambda turns: turn)

    write([{"value": b"first"}], [{"value": b"second"}], columns=("value",))

    assert values(broker, turn % 3) == [b"first", b"second"]


def test_row_larger_than_a_batch_is_sent_alone(broker: BrokerDouble) -> None:
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


def test_topic_option_has_priority_over_the_column(broker: BrokerDouble) -> None:
    write([{"topic": "missing", "value": b"here"}], columns=("topic", "value"))

    assert [value for partition in range(3) for value in values(broker, partition)] == [b"here"]
    with pytest.raises(UnknownPartition, match="missing"):
        write([{"value": b""}], columns=("value",), topic="missing")


def test_headers_are_written(broker: BrokerDouble) -> None:
    headers = [{"key": "a", "value": b"1"}, {"key": "b", "value": None}]
    write([{"key": b"k", "value": b"", "headers": headers}], columns=("key", "value", "headers"))

    [record] = broker.records(partition_of(b"k", 3))
    assert record.headers == (("a", b"1"), ("b", None))


@pytest.mark.parametrize("header", [None, {"key": None, "value": b"1"}])
def test_header_without_a_name_is_rejected(broker: BrokerDouble, header: dict[str, Any] | None) -> None:
    rows = [{"value": b"fine", "headers": []}, {"value": b"odd", "headers": [header]}]

    with pytest.raises(SourceError, match="header without a name"):
        write(rows, columns=("value", "headers"))
    assert broker.asked(PRODUCE) == []


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_codec_is_that_of_the_producer_property(broker: BrokerDouble, codec: str) -> None:
    write([{"key": b"k", "value": b"value" * 100}], **{"compression.type": codec})

    [batch] = broker.partitions[partition_of(b"k", 3)].batches
    assert parse_header(batch).codec == Codec[codec.upper()]
    with pytest.raises(UnusableOption, match="'brotli'"):
        write([], **{"compression.type": "brotli"})


def test_retries_have_the_same_sequences(broker: BrokerDouble) -> None:
    """So that the broker appends each batch once."""
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
    """Accepts a limited size, as with max.message.bytes or segment.bytes."""

    most_bytes = 20_000

    def _produce(self, fields: dict[str, Any], code: int) -> Struct:
        [part] = fields["topic_data"][0].partition_data
        too_large = len(part.records) > self.most_bytes
        return super()._produce(fields, ErrorCode.RECORD_LIST_TOO_LARGE if too_large else code)


def test_topic_with_a_small_limit_gets_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are halved until one is accepted, and later ones keep that size. Each row once, in order."""
    rows = [{"key": b"k", "value": b"%05d" % number * 200} for number in range(200)]
    with SmallTopic(3).installed(monkeypatch) as broker:
        assert write(rows[:120], rows[120:]) == 200

    partition = partition_of(b"k", 3)
    assert values(broker, partition) == [row["value"] for row in rows]
    assert [record.sequence for record in broker.records(partition)] == list(range(200))
    assert len(broker.asked(PRODUCE)) - len(broker.partitions[partition].batches) < 10, "the limit is found again"


def test_row_that_the_topic_rejects_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"key": b"k", "value": bytes(size)} for size in (10, 30_000, 10)]
    with SmallTopic(3).installed(monkeypatch) as broker, pytest.raises(BrokerFailed, match="orders"):
        write(rows)
    assert values(broker, partition_of(b"k", 3)) == [bytes(10)]


def test_rejection_is_returned_after_all_rows_were_read(broker: BrokerDouble) -> None:
    broker.fail(PRODUCE, ErrorCode.INVALID_RECORD)

    with pytest.raises(BrokerFailed, match="orders"):
        write(*[[{"key": b"k", "value": bytes(300_000)}]] * 4)


def test_without_rows_no_request_is_sent(broker: BrokerDouble) -> None:
    assert write() == 0
    assert broker.calls == []


@pytest.mark.parametrize("tail", [b"", BATCH], ids=["between frames", "within a frame"])
def test_truncated_rows_are_not_sent(broker: BrokerDouble, tail: bytes) -> None:
    """The task failed or was cancelled, so it reads no response and half of its rows are useless."""
    asked, answer = begun([{"key": b"k", "value": b"half"}]), io.BytesIO()
    asked.write(tail)
    asked.seek(0)

    serve(asked, answer)

    assert answer.getvalue() == b""
    assert broker.asked(PRODUCE) == []


def test_another_request_does_not_end_the_rows(broker: BrokerDouble) -> None:
    asked = begun([{"key": b"k", "value": b"half"}])
    asked.write(begun([{"key": b"k", "value": b"next"}]).getvalue())
    asked.seek(0)

    with pytest.raises(SystemExit, match="instead of rows"):
        serve(asked, io.BytesIO())
    assert broker.asked(PRODUCE) == []
