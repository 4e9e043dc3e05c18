"""A record of a v2 batch as spans: lengths, deltas, key, value, headers."""

from __future__ import annotations

from console.anatomy.cursor import Cursor
from console.anatomy.span import Span
from console.anatomy.text import time_text
from protocol.primitives import int8
from protocol.records.batch import BatchHeader
from protocol.records.errors import InvalidRecord

#: Shown headers of one record; a compressed batch can have millions.
MOST_HEADERS = 200
_LEAST_HEADER_BYTES = 2


def record_span(data: bytes, position: int, header: BatchHeader) -> Span:
    """Return the record at `position` of a batch's uncompressed records. Raises InvalidRecord, ProtocolError."""
    outside = Cursor(data, position)
    length = outside.varint("length")
    end = outside.position + length
    if length < 0 or end > len(data):
        raise InvalidRecord(f"a record of {length} bytes exceeds the remaining {len(data) - position}")
    outside.set_meaning("bytes of the record that follow")
    cursor = Cursor(data[:end], outside.position)
    cursor.number("attributes", int8)
    cursor.set_meaning("no bit is defined")
    timestamp = header.base_timestamp + cursor.varlong("timestampDelta")
    append_time = header.timestamp_type != 0
    cursor.set_meaning(
        f"LogAppendTime of the batch is used: {time_text(header.max_timestamp)}"
        if append_time
        else time_text(timestamp)
    )
    offset = header.base_offset + cursor.varint("offsetDelta")
    cursor.set_meaning(f"offset {offset}")
    for part in ("key", "value"):
        size = cursor.varint(f"{part}Length")
        cursor.content(part, size)
    _header_spans(cursor, cursor.varint("headersCount"))
    if cursor.position != end:
        raise InvalidRecord(
            f"the fields of a record of {length} bytes end {end - cursor.position} bytes before its end"
        )
    return Span(f"Record {offset}", position, end, "struct", parts=(*outside.spans, *cursor.spans))


def _header_spans(cursor: Cursor, count: int) -> None:
    """Add the headers, the last field: the rest of the record belongs to headers beyond the limit."""
    shown = min(count, MOST_HEADERS)
    for _ in range(shown):
        cursor.add(_header_span(cursor))
    more, end = count - shown, len(cursor.data)
    if more * _LEAST_HEADER_BYTES > end - cursor.position:
        raise InvalidRecord(f"the record has {count} headers, but too few bytes follow")
    if more:
        cursor.add(Span("Headers", cursor.position, end, f"{more} more"))


def _header_span(outer: Cursor) -> Span:
    cursor, start = outer.inside(), outer.position
    size = cursor.varint("headerKeyLength")
    if size < 0:
        raise InvalidRecord("a header without a key")
    cursor.content("headerKey", size, "string")
    size = cursor.varint("headerValueLength")
    cursor.content("headerValue", size)
    return Span("Header", start, cursor.position, "struct", parts=cursor.spans)


def record_spans(data: bytes, header: BatchHeader, first: int, limit: int) -> list[Span]:
    """Return at most `limit` records of a batch from number `first` on (0 is the batch's first).

    Earlier records are skipped by their lengths.
    """
    position = 0
    for _ in range(min(first, header.record_count)):
        cursor = Cursor(data, position)
        length = cursor.varint("length")
        if length < 0 or cursor.position + length > len(data):
            raise InvalidRecord(f"a record of {length} bytes at byte {position} exceeds the batch")
        position = cursor.position + length
    spans = []
    for _ in range(max(0, min(limit, header.record_count - first))):
        span = record_span(data, position, header)
        spans.append(span)
        position = span.end
    return spans
