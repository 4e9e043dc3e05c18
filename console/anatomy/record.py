"""A record of a v2 batch as spans: lengths, deltas, key, value, headers."""

from __future__ import annotations

from console.anatomy.cursor import Cursor
from console.anatomy.span import Span
from console.anatomy.text import time_text
from protocol.primitives import int8
from protocol.records.batch import BatchHeader
from protocol.records.errors import InvalidRecord

#: Headers of one record that are shown; a batch that is packed well may have millions.
MOST_HEADERS = 200
_LEAST_HEADER_BYTES = 2


def record_span(data: bytes, position: int, header: BatchHeader) -> Span:
    """The record at `position` of a batch's unpacked records. InvalidRecord, ProtocolError for what is none."""
    outside = Cursor(data, position)
    length = outside.varint("length")
    end = outside.position + length
    if length < 0 or end > len(data):
        raise InvalidRecord(f"a record of {length} bytes does not fit into the {len(data) - position} that are left")
    outside.say("bytes of the record that follow")
    cursor = Cursor(data[:end], outside.position)
    cursor.number("attributes", int8)
    cursor.say("no bit is in use")
    timestamp = header.base_timestamp + cursor.varlong("timestampDelta")
    append_time = header.timestamp_type != 0
    cursor.say(
        f"LogAppendTime of the batch counts: {time_text(header.max_timestamp)}" if append_time else time_text(timestamp)
    )
    offset = header.base_offset + cursor.varint("offsetDelta")
    cursor.say(f"offset {offset}")
    for part in ("key", "value"):
        size = cursor.varint(f"{part}Length")
        cursor.content(part, size)
    _header_spans(cursor, cursor.varint("headersCount"))
    if cursor.position != end:
        raise InvalidRecord(
            f"a record of {length} bytes has its fields end {end - cursor.position} bytes before its end"
        )
    return Span(f"Record {offset}", position, end, "struct", parts=(*outside.spans, *cursor.spans))


def _header_spans(cursor: Cursor, count: int) -> None:
    """Headers are the last field: those that are not shown are all that is left of the record."""
    shown = min(count, MOST_HEADERS)
    for _ in range(shown):
        cursor.add(_header_span(cursor))
    more, end = count - shown, len(cursor.data)
    if more * _LEAST_HEADER_BYTES > end - cursor.position:
        raise InvalidRecord(f"the record claims {count} headers, for which there are too few bytes")
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


def record_spans(data: bytes, header: BatchHeader, first: int, most: int) -> list[Span]:
    """The records of a batch from the `first` on (0 is the batch's first), `most` of them at most.

    Those before are stepped over by their lengths.
    """
    position = 0
    for _ in range(min(first, header.record_count)):
        cursor = Cursor(data, position)
        length = cursor.varint("length")
        if length < 0 or cursor.position + length > len(data):
            raise InvalidRecord(f"a record of {length} bytes at byte {position} does not fit")
        position = cursor.position + length
    spans = []
    for _ in range(max(0, min(most, header.record_count - first))):
        span = record_span(data, position, header)
        spans.append(span)
        position = span.end
    return spans
