"""Records as columns: batches of bounded size, and values that differ between Arrow and Kafka."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.records.batch import BatchHeader, encode_batch, parse_header
from protocol.records.builder import BatchBuilder
from protocol.records.compression import Codec
from protocol.records.errors import InvalidRecord
from protocol.records.record import Headers, Record, encode_record, iter_batch_records
from pybroker.isolated.rows import Rows, timestamp_array
from pybroker.source.columns import COLUMNS, arrow_schema


def record(offset: int, value: bytes | None = b"value", headers: Headers = ()) -> Record:
    return Record(offset, 1_700_000_000_123, b"key", value, headers)


def batches(records: list[Record], columns: tuple[str, ...] = ("offset",), **limits: Any) -> list[pa.RecordBatch]:
    """Return the batches of these records, including the flush at the end."""
    found: list[pa.RecordBatch] = []
    rows = Rows(columns, "orders", 3, found.append, **limits)
    rows.add(records, 1, 0, 1 << 40)
    rows.flush()
    assert rows.count == len(records)
    return found


def test_each_column_has_its_type_and_value() -> None:
    [found] = batches([record(5, headers=(("name", None),))], COLUMNS)

    assert found.schema.equals(arrow_schema(COLUMNS))
    assert found.to_pylist() == [
        {
            "key": b"key",
            "value": b"value",
            "topic": "orders",
            "partition": 3,
            "offset": 5,
            "timestamp": datetime(2023, 11, 14, 22, 13, 20, 123000, UTC),
            "timestampType": 1,
            "headers": [{"key": "name", "value": None}],
        }
    ]


def test_batches_have_a_maximal_number_of_rows() -> None:
    found = batches([record(number) for number in range(25)], most_rows=10)

    assert [part.num_rows for part in found] == [10, 10, 5]
    assert [row["offset"] for part in found for row in part.to_pylist()] == list(range(25))


def test_batch_ends_when_its_bytes_suffice() -> None:
    """Keys count, and earlier batches do not."""
    found: list[pa.RecordBatch] = []
    rows = Rows(("value",), "orders", 0, found.append, most_bytes=1000)
    for number in range(5):
        rows.add([record(number, bytes(397))], 0, 0, 100)
    assert [part.num_rows for part in found] == [3]

    rows.flush()
    assert [part.num_rows for part in found] == [3, 2]
    rows.flush()
    assert len(found) == 2


@pytest.mark.parametrize("column", ["key", "headers"])
def test_bytes_of_unselected_headers_count(column: str) -> None:
    found: list[pa.RecordBatch] = []
    rows = Rows((column,), "orders", 0, found.append, most_bytes=1000)
    for number in range(5):
        rows.add([record(number, headers=(("name", bytes(200)), ("none", None), ("name", bytes(200))))], 0, 0, 100)

    assert [part.num_rows for part in found] == [3]


def test_bytes_without_a_column_are_not_kept() -> None:
    found: list[pa.RecordBatch] = []
    rows = Rows(("offset", "timestamp"), "orders", 0, found.append, most_bytes=1000)
    rows.add([record(number, bytes(5000)) for number in range(5)], 0, 0, 100)
    assert not found

    rows.flush()
    assert [part.num_rows for part in found] == [5]


values = st.none() | st.binary(max_size=20) | st.integers(100, 20_000).map(bytes)
drawn_records = st.tuples(
    st.integers(0, 1 << 44),
    values,
    values,
    st.lists(st.tuples(st.text(max_size=3), values), max_size=2).map(tuple),
)


@given(
    st.lists(st.lists(drawn_records, min_size=1, max_size=12), min_size=1, max_size=4),
    st.sampled_from(list(Codec)),
    st.sampled_from([COLUMNS, *((name,) for name in COLUMNS), ("value", "offset")]),
    st.integers(0, 20),
    st.integers(5, 40),
    st.sampled_from([1, 3, 1000]),
    st.sampled_from([1, 500, 1 << 20]),
)
def test_columns_equal_the_records(
    drawn: list[list[tuple[int, Any, Any, Any]]],
    codec: Codec,
    columns: tuple[str, ...],
    start: int,
    end: int,
    most_rows: int,
    most_bytes: int,
) -> None:
    """For any batches and any limits."""
    found: list[pa.RecordBatch] = []
    rows = Rows(columns, "orders", 3, found.append, most_rows=most_rows, most_bytes=most_bytes)
    expected, offset = [], 2
    for each in drawn:
        builder = BatchBuilder(offset, codec)
        for one in each:
            builder.append(*one)
        batch = memoryview(builder.build())
        header = parse_header(batch)
        rows.add_batch(batch, header, start, end)
        expected += [one for one in iter_batch_records(batch, header) if start <= one.offset < end]
        offset = header.next_offset + 1  # a gap in the offsets
    rows.flush()

    assert all(0 < each.num_rows <= most_rows for each in found)
    assert rows.count == len(expected)
    of_all = {
        "key": [each.key for each in expected],
        "value": [each.value for each in expected],
        "topic": ["orders"] * len(expected),
        "partition": [3] * len(expected),
        "offset": [each.offset for each in expected],
        "timestamp": timestamp_array([each.timestamp for each in expected]).to_pylist(),
        "timestampType": [0] * len(expected),
        "headers": [[{"key": k, "value": v} for k, v in each.headers] or None for each in expected],
    }
    for column in columns:
        assert [value for each in found for value in each.column(column).to_pylist()] == of_all[column]


@pytest.mark.parametrize("columns", [("value",), ("offset", "timestamp"), ("timestamp",)])
@pytest.mark.parametrize(("count", "cut"), [(2, 0), (1, 1), (1, -1), (3, 0)])
def test_records_that_contradict_their_header_are_rejected(columns: tuple[str, ...], count: int, cut: int) -> None:
    records = encode_record(0, 0, b"key", b"value") + (bytes(cut) if cut > 0 else b"")
    header = BatchHeader(0, 0, 0, 2, 0, 0, 9, 1000, 1000, -1, -1, -1, count)
    batch = encode_batch(header, records[: len(records) + min(cut, 0)])
    rows = Rows(columns, "orders", 0, lambda batch: None)

    with pytest.raises(InvalidRecord):
        rows.add_batch(memoryview(batch), parse_header(batch), 0, 100)


def test_complete_header_avoids_parsing_records() -> None:
    """If no columns need them. With gaps between offsets they are parsed."""
    found: list[pa.RecordBatch] = []
    rows = Rows(("offset", "timestamp"), "orders", 0, found.append, most_rows=3)
    log_append_time = 0x08
    header = BatchHeader(10, 0, 0, 2, 0, log_append_time, 4, 1000, 2000, -1, -1, -1, 5)
    batch = encode_batch(header, b"no records")
    rows.add_batch(memoryview(batch), parse_header(batch), 11, 100)
    rows.flush()

    assert [row["offset"] for part in found for row in part.to_pylist()] == [11, 12, 13, 14]
    assert {row["timestamp"].timestamp() for part in found for row in part.to_pylist()} == {2.0}
    gaps = encode_batch(header._replace(record_count=4), b"no records")
    with pytest.raises(InvalidRecord):
        rows.add_batch(memoryview(gaps), parse_header(gaps), 11, 100)


def test_only_the_range_is_read() -> None:
    found: list[pa.RecordBatch] = []
    rows = Rows(("offset",), "orders", 0, found.append)
    rows.add([record(number) for number in range(10)], 0, 3, 6)
    rows.flush()

    assert [row["offset"] for row in found[0].to_pylist()] == [3, 4, 5]


def test_timestamp_type_is_that_of_each_batch() -> None:
    found: list[pa.RecordBatch] = []
    rows = Rows(("offset", "timestampType"), "orders", 0, found.append)
    for number, kind in enumerate((0, 0, 1, -1, 0)):
        rows.add([record(number)], kind, 0, 100)
    rows.flush()

    assert [row["timestampType"] for row in found[0].to_pylist()] == [0, 0, 1, -1, 0]


@pytest.mark.parametrize("timestamp", [(1 << 63) - 1, -(1 << 63)])
def test_time_beyond_spark_is_its_greatest(timestamp: int) -> None:
    """Spark has microseconds, Kafka milliseconds. A client's wrong timestamp must not stop a query."""
    [found] = timestamp_array([timestamp]).cast(pa.int64()).to_pylist()

    assert abs(found) == ((1 << 63) - 1) // 1000 * 1000
    assert (found < 0) == (timestamp < 0)


def test_header_name_that_is_not_utf8_is_replaced() -> None:
    [found] = batches([record(0, headers=(("na\udcffme", b"v"),))], ("headers",))

    assert found.to_pylist() == [{"headers": [{"key": "na\ufffdme", "value": b"v"}]}]
