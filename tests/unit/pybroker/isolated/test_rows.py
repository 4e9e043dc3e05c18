"""Records as columns: batches of a bounded size, and the values for which Arrow and Kafka differ."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from protocol.records.record import Headers, Record
from pybroker.isolated.rows import Rows, timestamp_array
from pybroker.source.columns import COLUMNS, arrow_schema


def record(offset: int, value: bytes | None = b"value", headers: Headers = ()) -> Record:
    return Record(offset, 1_700_000_000_123, b"key", value, headers)


def batches(records: list[Record], columns: tuple[str, ...] = ("offset",), **limits: Any) -> list[pa.RecordBatch]:
    """What is given away, flush included."""
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


def test_batches_have_at_most_so_many_rows() -> None:
    found = batches([record(number) for number in range(25)], most_rows=10)

    assert [part.num_rows for part in found] == [10, 10, 5]
    assert [row["offset"] for part in found for row in part.to_pylist()] == list(range(25))


def test_batch_is_given_away_when_its_bytes_are_enough() -> None:
    """Keys count, and what was given away before does not."""
    found: list[pa.RecordBatch] = []
    rows = Rows(("offset",), "orders", 0, found.append, most_bytes=1000)
    for number in range(5):
        rows.add([record(number, bytes(397))], 0, 0, 100)
    assert [part.num_rows for part in found] == [3]

    rows.flush()
    assert [part.num_rows for part in found] == [3, 2]
    rows.flush()
    assert len(found) == 2


@pytest.mark.parametrize("column", ["offset", "headers"])
def test_bytes_of_headers_count_also_where_they_are_not_wanted(column: str) -> None:
    found: list[pa.RecordBatch] = []
    rows = Rows((column,), "orders", 0, found.append, most_bytes=1000)
    for number in range(5):
        rows.add([record(number, headers=(("name", bytes(200)), ("none", None), ("name", bytes(200))))], 0, 0, 100)

    assert [part.num_rows for part in found] == [3]


def test_work_grows_no_faster_than_the_records() -> None:
    """A batch may have a million: what is left of them is neither copied nor weighed again for each part."""

    class Value(bytes):
        weighed = 0

        def __len__(self) -> int:
            Value.weighed += 1
            return super().__len__()

    def weighed(count: int) -> int:
        Value.weighed = 0
        batches([record(number, Value(b"value")) for number in range(count)], most_rows=10)
        return Value.weighed

    assert weighed(1000) == 100 * weighed(10)


def test_only_the_range_is_taken() -> None:
    found: list[pa.RecordBatch] = []
    rows = Rows(("offset",), "orders", 0, found.append)
    rows.add([record(number) for number in range(10)], 0, 3, 6)
    rows.flush()

    assert [row["offset"] for row in found[0].to_pylist()] == [3, 4, 5]


@pytest.mark.parametrize("timestamp", [(1 << 63) - 1, -(1 << 63)])
def test_time_that_does_not_fit_is_the_last_that_does(timestamp: int) -> None:
    """Spark has microseconds, Kafka milliseconds: a client's nonsense stops no query."""
    [found] = timestamp_array([timestamp]).cast(pa.int64()).to_pylist()

    assert abs(found) == ((1 << 63) - 1) // 1000 * 1000
    assert (found < 0) == (timestamp < 0)


def test_header_name_that_is_no_text_is_replaced() -> None:
    [found] = batches([record(0, headers=(("na\udcffme", b"v"),))], ("headers",))

    assert found.to_pylist() == [{"headers": [{"key": "na\ufffdme", "value": b"v"}]}]
