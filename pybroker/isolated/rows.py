"""From records to columns: Arrow record batches of those columns that are wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from protocol.records.record import Headers, Record
from pybroker.source.columns import arrow_schema

#: As many rows as Spark itself puts into a batch; bytes of keys, values and headers, since records may be large.
MOST_ROWS, MOST_BYTES = 10_000, 8 << 20

#: Milliseconds that fit into a timestamp of microseconds.
_MOST_MS = ((1 << 63) - 1) // 1000


class Rows:
    """Records of one partition, given away as record batches whenever there are enough."""

    def __init__(
        self,
        columns: Sequence[str],
        topic: str,
        partition: int,
        emit: Callable[[pa.RecordBatch], None],
        *,
        most_rows: int = MOST_ROWS,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._columns = columns
        self._schema = arrow_schema(columns)
        self._topic = topic
        self._partition = partition
        self._emit = emit
        self._most_rows = most_rows
        self._most_bytes = most_bytes
        self._records: list[Record] = []
        self._timestamp_types: list[int] = []
        self._bytes = 0
        #: How many records were taken.
        self.count = 0

    def add(self, records: Iterable[Record], timestamp_type: int, start: int, end: int) -> None:
        """Take those with offsets in [start, end)."""
        taken = [record for record in records if start <= record[0] < end]
        self.count += len(taken)
        position = 0
        while position < len(taken):
            part = taken[position : position + self._most_rows - len(self._records)]
            position += len(part)
            self._records += part
            self._timestamp_types += [timestamp_type] * len(part)
            self._bytes += _size(part)
            if len(self._records) >= self._most_rows or self._bytes >= self._most_bytes:
                self.flush()

    def flush(self) -> None:
        """Give away what is left."""
        if not self._records:
            return
        records, types, count = self._records, self._timestamp_types, len(self._records)
        self._records, self._timestamp_types, self._bytes = [], [], 0
        offsets, timestamps, keys, values, headers, _ = zip(*records, strict=True)
        made: dict[str, Callable[[], Any]] = {
            "key": lambda: pa.array(keys, pa.binary()),
            "value": lambda: pa.array(values, pa.binary()),
            "topic": lambda: pa.repeat(pa.scalar(self._topic, pa.string()), count),
            "partition": lambda: pa.repeat(pa.scalar(self._partition, pa.int32()), count),
            "offset": lambda: pa.array(offsets, pa.int64()),
            "timestamp": lambda: timestamp_array(timestamps),
            "timestampType": lambda: pa.array(types, pa.int32()),
            "headers": lambda: pa.array([_headers(each) for each in headers], self._schema.field("headers").type),
        }
        arrays = [made[name]() for name in self._columns]
        self._emit(pa.RecordBatch.from_arrays(arrays, schema=self._schema))


def timestamp_array(timestamps_ms: Sequence[int]) -> pa.Array:
    """Milliseconds as Arrow has them for Spark; a time that does not fit is the last that does."""
    fitting = [max(-_MOST_MS, min(_MOST_MS, each)) * 1000 for each in timestamps_ms]
    return pa.array(fitting, pa.int64()).view(pa.timestamp("us", tz="UTC"))


def milliseconds(timestamps: pa.Array) -> list[int]:
    """And back."""
    return [each // 1000 for each in timestamps.cast(pa.int64()).to_pylist()]


def _size(records: Sequence[Record]) -> int:
    """Bytes of keys, values and headers: these are held with their records, also where no column has them."""
    size = sum(len(record[2] or b"") + len(record[3] or b"") for record in records)
    return size + sum(len(name) + len(value or b"") for record in records for name, value in record[4])


def _headers(headers: Headers) -> list[dict[str, object]] | None:
    """Null where there are none, as in Spark's Kafka source; names that are no UTF-8 as Java decodes them."""
    if not headers:
        return None
    return [{"key": _replaced(name), "value": value} for name, value in headers]


def _replaced(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
