"""Archived rows are restored to a topic with their timestamps, each once, after any number of failed attempts."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.list_offsets import LIST_OFFSETS
from protocol.messages.produce import PRODUCE
from protocol.records.batch import parse_header
from protocol.records.builder import BatchBuilder
from protocol.records.record import Record
from protocol.schema import Struct
from pybroker.isolated.connection import ConnectionFailed
from pybroker.isolated.rows import timestamp_array
from pybroker.isolated.serving import serve
from pybroker.isolated.topic_restorer import RESTORED_COLUMNS
from pybroker.source.columns import arrow_schema
from pybroker.source.errors import BrokerFailed, SourceError, from_json
from pybroker.source.frames import ANSWER, BATCH, REQUEST, read_frame, write_frame, write_json
from tests.support.broker_double import PROPERTIES, TOPIC, BrokerDouble

T0 = 1_700_000_000_123
PRODUCER = (99, 2)


class SequencedBroker(BrokerDouble):
    """A broker that checks a producer's sequences, and returns the offset of each append."""

    #: A batch of a killed attempt, which arrives before the next one.
    late: bytes | None = None

    def _produce(self, fields: dict[str, Any], code: int) -> Struct:
        [part] = fields["topic_data"][0].partition_data
        if self.late is not None:
            late, self.late = self.late, None
            self.partitions[part.index].batches.append(late)
        expected = self.partitions[part.index].end - self.partitions[part.index].start
        if not code and parse_header(part.records).base_sequence != expected:
            code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        offset = self.partitions[part.index].end
        answer = super()._produce(fields, code)
        answer.responses[0].partition_responses[0].base_offset = offset
        return answer


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[SequencedBroker]:
    with SequencedBroker(2).installed(monkeypatch) as broker:  # type: ignore[misc]
        yield broker  # type: ignore[misc]


def row(number: int, partition: int = 0) -> dict[str, Any]:
    """Return a row by number; the numbers cover all kinds."""
    headers = [None, [{"key": "null", "value": None}, {"key": "", "value": b""}]][number % 2]
    return {
        "partition": partition,
        "timestamp": T0 + number,
        "key": [None, b"", b"key"][number % 3],
        "value": [b"value-%d" % number, None][number % 5 == 4],
        "headers": headers,
    }


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    schema = arrow_schema(RESTORED_COLUMNS)
    arrays = [
        timestamp_array([each["timestamp"] for each in rows])
        if field.name == "timestamp"
        else pa.array([each[field.name] for each in rows], field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def restore(*batches: list[dict[str, Any]], base: int = 0, index: int = 0) -> list[list[int]]:
    """Restore the rows; return (partition, written, found) of each partition."""
    asked, answer = io.BytesIO(), io.BytesIO()
    places = {str(partition): {"base": base, "index": index} for partition in range(2)}
    wanted = {"properties": PROPERTIES, "topic": TOPIC, "producer": PRODUCER, "partitions": places}
    write_json(asked, REQUEST, {"do": "restore_topic", **wanted})
    for rows in batches:
        write_frame(asked, BATCH, batch_of(rows).serialize())
    write_json(asked, ANSWER, {})
    asked.seek(0)
    serve(asked, answer)
    assert asked.read() == b"", "rows are left unread"
    answer.seek(0)
    frame = read_frame(answer)
    assert frame is not None
    if frame[0] != ANSWER:
        raise from_json(json.loads(frame[1]))
    done: list[list[int]] = json.loads(frame[1])["partitions"]
    return done


def as_row(record: Record, partition: int = 0) -> dict[str, Any]:
    headers = [{"key": name, "value": value} for name, value in record.headers] or None
    return {
        "partition": partition,
        "timestamp": record.timestamp,
        "key": record.key,
        "value": record.value,
        "headers": headers,
    }


def check(broker: BrokerDouble, count: int, partition: int = 0) -> None:
    """Assert that each row is there once, and that sequence numbers have no gap."""
    records = broker.records(partition)
    assert [as_row(record, partition) for record in records] == [row(number, partition) for number in range(count)]
    assert [record.sequence for record in records] == list(range(count))


def test_rows_are_restored_with_all_their_fields(broker: SequencedBroker) -> None:
    rows = [row(number) for number in range(30)]

    assert restore(rows[:7], [*rows[7:], row(0, 1)], [row(1, 1)]) == [[0, 30, 0], [1, 2, 0]]

    check(broker, 30)
    check(broker, 2, partition=1)
    assert {parse_header(each).producer_id for each in broker.partitions[0].batches} == {99}


@pytest.mark.parametrize("there", [1, 13, 29, 30])
@pytest.mark.parametrize("index", [0, 1])
def test_existing_rows_are_skipped(broker: SequencedBroker, there: int, index: int) -> None:
    """The input need not start with the first row."""
    restore([row(number) for number in range(there)])

    assert restore([row(number) for number in range(index, 30)], index=index) == [[0, 30 - there, there - index]]
    check(broker, 30)


@pytest.mark.parametrize("late", [1, 7, 20, 25])
def test_late_batch_of_a_killed_attempt_is_not_duplicated(broker: SequencedBroker, late: int) -> None:
    """It has some of the rows, all of them, or more than the first batch."""
    builder = BatchBuilder(producer_id=99, producer_epoch=2, base_sequence=0)
    for number in range(late):
        each = row(number)
        headers = [(header["key"], header["value"]) for header in each["headers"] or ()]
        builder.append(each["timestamp"], each["key"], each["value"], headers)
    broker.late = builder.build()
    broker.partitions[0].batches = []

    assert restore([row(number) for number in range(20)], [row(number) for number in range(20, 30)]) == [
        [0, 30 - late, late]
    ]
    check(broker, 30)


def test_request_is_resent_after_a_lost_connection(broker: SequencedBroker) -> None:
    broker.fail(PRODUCE, ConnectionFailed, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    assert restore([row(number) for number in range(5)]) == [[0, 5, 0]]
    check(broker, 5)


def test_large_rows_are_sent_in_several_batches(broker: SequencedBroker) -> None:
    """None above 512 KiB unless a single row is larger."""
    rows = [{**row(number), "value": bytes(100_000 if number != 7 else 700_000)} for number in range(20)]

    assert restore(rows) == [[0, 20, 0]]
    sizes = [len(each) for each in broker.partitions[0].batches]
    assert len(sizes) > 4
    assert sum(size > 512 << 10 for size in sizes) == 1
    assert [record.sequence for record in broker.records()] == list(range(20))


def test_topic_with_a_small_limit_gets_small_batches(broker: SequencedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are halved for max.message.bytes and segment.bytes; each row keeps its sequence number."""
    produce = SequencedBroker._produce

    def small_alone(self: SequencedBroker, fields: dict[str, Any], code: int) -> Struct:
        [part] = fields["topic_data"][0].partition_data
        return produce(self, fields, ErrorCode.MESSAGE_TOO_LARGE if len(part.records) > 1_500 else code)

    monkeypatch.setattr(SequencedBroker, "_produce", small_alone)

    assert restore([row(number) for number in range(200)], [row(number) for number in range(200, 300)]) == [[0, 300, 0]]
    check(broker, 300)


@pytest.mark.parametrize(
    "other", [{"key": b"other"}, {"value": b""}, {"timestamp": T0}, {"headers": [{"key": "null", "value": b""}]}]
)
def test_foreign_records_are_detected(broker: SequencedBroker, other: dict[str, Any]) -> None:
    """By comparing the last record, and by the offset of each append."""
    restore([{**row(number), **other} for number in range(3)])
    with pytest.raises(SourceError, match="at offset 2 differs from the archive's"):
        restore([row(number) for number in range(5)])
    assert len(broker.records()) == 3

    with pytest.raises(SourceError, match="ends at offset 3, and had row 7"):
        restore([row(7)], index=7)


def test_rows_at_unexpected_offsets_are_an_error(broker: SequencedBroker) -> None:
    """Another producer writes between the check and the first batch."""
    builder = BatchBuilder()
    builder.append(T0, None, b"other")
    other = builder.build()
    original = broker._produce

    def after_another(fields: dict[str, Any], code: int) -> Struct:
        broker.partitions[0].batches.append(other)
        answer = BrokerDouble._produce(broker, fields, code)
        answer.responses[0].partition_responses[0].base_offset = 1
        return answer

    broker._produce = after_another  # type: ignore[method-assign]
    with pytest.raises(SourceError, match="rows that belong to offset 0 went to 1"):
        restore([row(0)])
    broker._produce = original  # type: ignore[method-assign]


def test_unexpected_sequence_error_is_raised(broker: SequencedBroker) -> None:
    broker.fail(PRODUCE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    with pytest.raises(BrokerFailed, match="rejects row 0"):
        restore([row(0)])

    broker.fail(PRODUCE, ErrorCode.MESSAGE_TOO_LARGE)
    with pytest.raises(BrokerFailed):
        restore([row(0)])
    broker.fail(LIST_OFFSETS, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(BrokerFailed):
        restore([row(0)])
