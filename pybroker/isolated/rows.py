"""Turn records into Arrow record batches of the wanted columns.

The bytes of records are not copied. For each record, numbers are stored: its offset, its time, and the positions of its
key and value in these bytes (protocol/records/fields.py). These borders make the bytes an Arrow array of keys, values
and the bytes between them, from which Arrow takes the keys, or the values.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from protocol.records.batch import HEADER_SIZE, LOG_APPEND_TIME, LOG_OVERHEAD, BatchHeader
from protocol.records.compiled_fields import walk_fields
from protocol.records.compression import DEFAULT_MAX_SIZE, Codec, decompress
from protocol.records.errors import InvalidRecord
from protocol.records.fields import BORDERS, HAS_HEADERS, NO_KEY, NO_VALUE, decode_fields
from protocol.records.record import Record, decode_headers, encode_record
from pybroker.source.columns import arrow_schema

#: The rows of a batch, as in Spark; and the bytes of its records, as these may be large.
MOST_ROWS, MOST_BYTES = 10_000, 8 << 20

#: The largest time in milliseconds that fits into a timestamp in microseconds.
_MOST_MS = ((1 << 63) - 1) // 1000
#: Between these base times, no time with a delta exceeds that.
_USUAL_MS = 1 << 52
_FIELDS = frozenset(("key", "value", "headers"))
_TIMESTAMP = pa.timestamp("us", tz="UTC")


class Rows:
    """Collects records of one partition, and emits a record batch whenever there are enough."""

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
        self._with_fields = not _FIELDS.isdisjoint(columns)
        #: The number of records so far.
        self.count = 0
        self._begin()

    def _begin(self) -> None:
        """Start a new batch. The arrays of an emitted batch belong to that batch."""
        room, fields = self._most_rows, self._most_rows if self._with_fields else 0
        self._parts: list[bytes] = []
        self._bytes = self._taken = self._seen = 0
        self._offsets, self._timestamps = array("q", bytes(8 * room)), array("q", bytes(8 * room))
        self._borders, self._marks = array("i", bytes(4 * (BORDERS * fields + 1))), bytearray(fields)
        #: (count, timestampType) of consecutive rows.
        self._types: list[tuple[int, int]] = []

    def add_batch(self, batch: memoryview, header: BatchHeader, start: int, end: int) -> None:
        """Add the records of a whole v2 batch with offsets in [start, end). Errors: RecordsError."""
        kind, codec, base = header.timestamp_type, header.codec, header.base_offset
        time_ms = header.max_timestamp if kind else header.base_timestamp
        packed = batch[HEADER_SIZE : header.batch_length + LOG_OVERHEAD]
        if self._needs_no_records(header, len(packed)):
            self._add_unseen(range(max(start, base), min(end, header.next_offset)), time_ms, kind)
            return
        data = bytes(packed) if codec == Codec.NONE else decompress(codec, packed)
        self._add(data, header.record_count, Placed(start, end, base, time_ms, kind, bool(kind)))

    def add(self, records: Iterable[Record], timestamp_type: int, start: int, end: int) -> None:
        """Add records of an older format with offsets in [start, end), in the layout of v2."""
        for record in records:
            if start <= record.offset < end:
                data = encode_record(0, 0, record.key, record.value, record.headers)
                self._add(data, 1, Placed(start, end, record.offset, record.timestamp, timestamp_type, True))

    def flush(self) -> None:
        """Emit the remaining rows."""
        if not self._taken:
            return
        count, types, offsets, timestamps = self._taken, self._types, self._offsets, self._timestamps
        fields = Fields(self._parts, self._borders, self._marks, count, self._seen)
        made: dict[str, Callable[[], Any]] = {
            "key": lambda: fields.column(0, NO_KEY),
            "value": lambda: fields.column(2, NO_VALUE),
            "topic": lambda: pa.repeat(pa.scalar(self._topic, pa.string()), count),
            "partition": lambda: pa.repeat(pa.scalar(self._partition, pa.int32()), count),
            "offset": lambda: _numbers(offsets, count, pa.int64()),
            "timestamp": lambda: _numbers(timestamps, count, _TIMESTAMP),
            "timestampType": lambda: pa.concat_arrays([pa.repeat(pa.scalar(kind, pa.int32()), n) for n, kind in types]),
            "headers": lambda: pa.array(fields.headers(), self._schema.field("headers").type),
        }
        arrays = [made[name]() for name in self._columns]
        self._begin()
        self._emit(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    # ---- internals

    def _needs_no_records(self, header: BatchHeader, size: int) -> bool:
        """Return whether the header is enough: the offsets have no gap, and no other column is wanted."""
        max_size = size if header.codec == Codec.NONE else DEFAULT_MAX_SIZE
        return (
            not self._with_fields
            and 0 < header.record_count == header.last_offset_delta + 1 <= max_size
            and ("timestamp" not in self._columns or header.timestamp_type == LOG_APPEND_TIME)
        )

    def _add_unseen(self, wanted: range, time_ms: int, kind: int) -> None:
        """Add records with these offsets, and one time."""
        time_us = _microseconds(time_ms)
        while wanted:
            before = self._taken
            part = wanted[: self._most_rows - before]
            wanted = wanted[len(part) :]
            self._taken += len(part)
            self._offsets[before : self._taken] = array("q", part)
            self._timestamps[before : self._taken] = array("q", [time_us]) * len(part)
            self._took(len(part), kind, b"")

    def _add(self, data: bytes, count: int, placed: Placed) -> None:
        """Add the `count` records of `data`. Raises InvalidRecord if the number is wrong."""
        position, is_usual = 0, -_USUAL_MS < placed.time_ms < _USUAL_MS
        while count > 0:
            begun, before, looked = position, self._taken, 0
            if is_usual:
                # at most the allowed bytes are held, plus the last record
                stop = begun + self._most_bytes - self._bytes if self._with_fields else len(data)
                try:
                    looked, self._taken, position, seen = walk_fields(
                        data,
                        begun,
                        stop,
                        count,
                        placed.start,
                        placed.end,
                        placed.base_offset,
                        placed.time_ms,
                        placed.is_append_time,
                        self._offsets,
                        self._timestamps,
                        self._borders,
                        self._marks,
                        before,
                        self._bytes - begun,
                        self._with_fields,
                    )
                    self._seen |= seen
                except (
                    IndexError,
                    OverflowError,
                ):  # there is an error somewhere: the careful parser finds and reports it
                    is_usual = False
            if not looked:
                position = self._add_carefully(data, begun, placed)
            count -= looked or 1
            self._took(self._taken - before, placed.kind, data[begun:position] if self._with_fields else b"")
        if position != len(data):
            raise InvalidRecord(f"{len(data) - position} bytes are left after the records declared")

    def _add_carefully(self, data: bytes, position: int, placed: Placed) -> int:
        """Add one record of any shape, and return its end."""
        offset_delta, time_delta, end, borders, mark = decode_fields(data, position)
        offset, row = placed.base_offset + offset_delta, self._taken
        if placed.start <= offset < placed.end:
            time_ms = placed.time_ms + (0 if placed.is_append_time else time_delta)
            self._offsets[row], self._timestamps[row] = offset, _microseconds(time_ms)
            if self._with_fields:
                shift = self._bytes - position
                self._borders[BORDERS * row : BORDERS * (row + 1)] = array("i", [shift + each for each in borders])
                self._marks[row] = mark
                self._seen |= mark
            self._taken += 1
        return end

    def _took(self, taken: int, kind: int, part: bytes) -> None:
        """Store what rows share, and their bytes; emit them if there are enough."""
        if taken:
            self.count += taken
            if self._types and self._types[-1][1] == kind:
                taken += self._types.pop()[0]
            self._types.append((taken, kind))
            self._parts.append(part)
            self._bytes += len(part)
        if self._taken == self._most_rows or self._bytes >= self._most_bytes:
            self.flush()


class Placed(NamedTuple):
    """The properties that the records of a batch share: the wanted offsets, [start, end), and the batch's own numbers.

    `time_ms` is the time of all records if `is_append_time`, else the base of their deltas. `kind` is timestampType.
    """

    start: int
    end: int
    base_offset: int
    time_ms: int
    kind: int
    is_append_time: bool


class Fields:
    """Keys, values and headers of rows, by their borders in the bytes of several parts."""

    def __init__(self, parts: list[bytes], borders: array[int], marks: bytearray, count: int, seen: int) -> None:
        self._parts, self._borders, self._marks = parts, borders, marks
        self._count = count
        self._seen = seen

    def column(self, number: int, without: int) -> pa.Array:
        """Return the bytes between two borders of each row, or null if the row's mark is set."""
        places = _places(self._count)[number]
        if self._seen & without:
            is_null = self._has(without)
            if pc.all(is_null).as_py():
                return pa.nulls(self._count, pa.binary())
            places = pc.if_else(is_null, pa.scalar(None, pa.int32()), places)
        return self._pieces.take(places)

    def headers(self) -> list[list[dict[str, object]] | None]:
        """Return the headers, null without any, as in Spark's Kafka source. Invalid UTF-8 is decoded as in Java."""
        if not self._seen & HAS_HEADERS:
            return [None] * self._count
        found = self.column(3, 0).to_pylist()
        marks = self._marks
        return [
            [{"key": _replaced(name), "value": value} for name, value in decode_headers(each)]
            if mark & HAS_HEADERS
            else None
            for each, mark in zip(found, marks, strict=False)
        ]

    @cached_property
    def _pieces(self) -> pa.Array:
        """Return all bytes, cut at the borders: `BORDERS` pieces a row, the last of which ends at the next row."""
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        pieces = BORDERS * self._count
        self._borders[pieces] = self._borders[pieces - 1]
        buffers = [None, pa.py_buffer(self._borders), pa.py_buffer(data)]
        return pa.Array.from_buffers(pa.binary(), pieces, buffers)

    def _has(self, mark: int) -> pa.Array:
        marks = pa.Array.from_buffers(pa.uint8(), self._count, [None, pa.py_buffer(self._marks)])
        return pc.not_equal(pc.bit_wise_and(marks, pa.scalar(mark, pa.uint8())), pa.scalar(0, pa.uint8()))


@lru_cache(4)
def _places(rows: int) -> list[pa.Array]:
    """Return, for each border, the indexes of the pieces that begin at it."""
    return [pa.array(range(border, BORDERS * rows, BORDERS), pa.int32()) for border in range(BORDERS)]


def _numbers(numbers: array[int], count: int, kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(numbers)])


def _microseconds(time_ms: int) -> int:
    """Clamp times that do not fit."""
    return max(-_MOST_MS, min(_MOST_MS, time_ms)) * 1000


def timestamp_array(timestamps_ms: Sequence[int]) -> pa.Array:
    """Return milliseconds as Arrow timestamps for Spark."""
    return pa.array(map(_microseconds, timestamps_ms), pa.int64()).view(_TIMESTAMP)


def milliseconds(timestamps: pa.Array) -> list[int]:
    """And back."""
    return [each // 1000 for each in timestamps.cast(pa.int64()).to_pylist()]


def _replaced(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
