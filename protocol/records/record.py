"""Encode and decode the records of a batch v2.

    length varint | attributes int8 (unused) | timestampDelta varlong | offsetDelta varint |
    keyLength varint (-1 null) | key | valueLength varint (-1 null) | value |
    headerCount varint | (keyLength varint | key | valueLength varint (-1 null) | value) ...

This is work per record: for reading the broker's own topics, cleaning, conversion and full validation. A plain Produce
or Fetch never decodes records.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from protocol.records.batch import (
    CODEC_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    advance_sequence,
    parse_header,
)
from protocol.records.buffer import Buffer
from protocol.records.compression import DEFAULT_MAX_SIZE, Codec, decompress
from protocol.records.errors import InvalidRecord, OversizedRecord, UnreadableLength
from protocol.records.varint import MAX_VARINT_SIZE, decode_varint, decode_varlong, encode_varint

_NEW_TUPLE = tuple.__new__
#: Precomputed varints of lengths and counts below this; at most two bytes.
_SMALL_LIMIT = 1024
_SMALL_VARINTS = tuple(encode_varint(value) for value in range(_SMALL_LIMIT))
#: The maximum size of a record without headers beyond key and value: attributes, four numbers of two bytes, no headers.
_MOST_BETWEEN = 10
#: From this zigzag value on a varint has more than two bytes.
_THREE_BYTES = 1 << 14
#: The zigzag value of length -1, which means null.
_NULL = 1
_INT_MAX = (1 << 31) - 1
_LEAST_TIME, _MOST_TIME = -(1 << 63), (1 << 63) - 1

Headers = tuple[tuple[str, bytes | None], ...]
#: (offset, key, value).
KeyAndValue = tuple[int, bytes | None, bytes | None]


class Record(NamedTuple):
    """A record with its position: `timestamp` in ms (LogAppendTime applied, -1 in v0), `sequence` -1 if it has none."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    sequence: int = NO_SEQUENCE


def encode_record(
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Headers | Sequence[tuple[str, bytes | None]] = (),
) -> bytes:
    """Encode a record of a v2 batch with its length. Header keys are UTF-8; invalid bytes are kept."""
    is_near = 0 <= timestamp_delta < _SMALL_LIMIT and 0 <= offset_delta < _SMALL_LIMIT
    if is_near and not headers and value is not None:
        sizes = _SMALL_VARINTS
        key_size, value_size = len(key or b""), len(value)
        if (
            key_size < _SMALL_LIMIT and value_size < _SMALL_LIMIT - key_size - _MOST_BETWEEN
        ):  # the usual case for small records
            time, place = sizes[timestamp_delta], sizes[offset_delta]
            if key is None:
                body = b"\0%b%b\x01%b%b\0" % (time, place, sizes[value_size], value)
            else:
                body = b"\0%b%b%b%b%b%b\0" % (time, place, sizes[key_size], key, sizes[value_size], value)
            return sizes[len(body)] + body
    parts = [b"\0", encode_varint(timestamp_delta), encode_varint(offset_delta)]
    for item in (key, value):
        if item is None:
            parts.append(b"\x01")
        else:
            parts.append(encode_varint(len(item)))
            parts.append(item)
    parts.append(encode_varint(len(headers)))
    for name, content in headers:
        encoded = name.encode("utf-8", "surrogateescape")
        parts.append(encode_varint(len(encoded)))
        parts.append(encoded)
        if content is None:
            parts.append(b"\x01")
        else:
            parts.append(encode_varint(len(content)))
            parts.append(content)
    body = b"".join(parts)
    return encode_varint(len(body)) + body


def iter_batch_records(
    batch: Buffer, header: BatchHeader | None = None, max_size: int = DEFAULT_MAX_SIZE
) -> Iterator[Record]:
    """Yield the records of one whole v2 batch. Raises InvalidRecord if count and bytes disagree."""
    header = header or parse_header(batch)
    base_offset, _, _, _, _, attributes, _, base_timestamp, max_timestamp, _, _, base_sequence, count = header
    data = _unpacked_records(batch, header, max_size)
    append_time = max_timestamp if attributes & TIMESTAMP_TYPE_BIT else None
    position = 0
    for _ in range(count):
        timestamp_delta, offset_delta, key, value, headers, position = decode_record(data, position)
        timestamp = base_timestamp + timestamp_delta if append_time is None else append_time
        if not _LEAST_TIME <= timestamp <= _MOST_TIME:
            timestamp = _as_long(timestamp)
        sequence = NO_SEQUENCE if base_sequence < 0 else advance_sequence(base_sequence, offset_delta)
        yield _NEW_TUPLE(Record, (base_offset + offset_delta, timestamp, key, value, headers, sequence))
    if position != len(data):
        raise InvalidRecord(f"{len(data) - position} bytes are left after the {count} records declared")


def _as_long(number: int) -> int:
    """Return the int64 that Java computes for a sum that overflows."""
    return ((number - _LEAST_TIME) & ((1 << 64) - 1)) + _LEAST_TIME


def keys_and_values(data: bytes, start: int, header: BatchHeader) -> list[KeyAndValue]:
    """Return offset, key and value of the records in the whole v2 batch at `start`, to load a topic of the broker's
    own.

    Raises InvalidRecord if count and bytes disagree.
    """
    base_offset, length, _, _, _, attributes, _, _, _, _, _, _, count = header
    position, end = start + HEADER_SIZE, start + LOG_OVERHEAD + length
    if attributes & CODEC_MASK:
        data = decompress(attributes & CODEC_MASK, memoryview(data)[position:end])
        position, end = 0, len(data)
    found = []
    for _ in range(count):
        _, offset_delta, key, value, _, position = decode_record(data, position)
        found.append((base_offset + offset_delta, key, value))
    if position != end:
        raise InvalidRecord(f"{end - position} bytes are left after the {count} records declared")
    return found


def _unpacked_records(batch: Buffer, header: BatchHeader, max_size: int) -> bytes:
    records = memoryview(batch)[HEADER_SIZE : header.batch_length + LOG_OVERHEAD]
    codec = header.attributes & CODEC_MASK
    return bytes(records) if codec == Codec.NONE else decompress(codec, records, max_size)


def skim_records(
    batch: Buffer, header: BatchHeader, max_size: int = DEFAULT_MAX_SIZE, most_record_bytes: int = _INT_MAX
) -> Iterator[Record]:
    """Yield the records of a v2 batch without their content: the key is empty or None; value and headers are omitted.

    Kafka checks a compressed batch that it does not change in this way: the position of a record follows from its
    fields, whatever its length says. Raises InvalidRecord if count and bytes disagree, or if a length is negative;
    OversizedRecord if it is too large.
    """
    data = _unpacked_records(batch, header, max_size)
    append_time = header.max_timestamp if header.attributes & TIMESTAMP_TYPE_BIT else None
    position = 0
    for _ in range(header.record_count):
        size, position = decode_varint(data, position)
        if size < 0:
            raise InvalidRecord(f"a record of {size} bytes")
        if size > most_record_bytes:
            raise _too_large(size, most_record_bytes)
        timestamp_delta, position = decode_varlong(data, position + 1)
        offset_delta, position = decode_varint(data, position)
        key_size, position = decode_varint(data, position)
        position = _skip(data, position, key_size)
        value_size, position = decode_varint(data, position)
        position = _skip(data, position, value_size)
        header_count, position = decode_varint(data, position)
        if header_count < 0:
            raise InvalidRecord(f"{header_count} headers")
        for _ in range(header_count):
            size, position = decode_varint(data, position)
            if size < 0:
                raise InvalidRecord("a header without a key")
            position = _skip(data, position, size)
            size, position = decode_varint(data, position)
            position = _skip(data, position, size)
        timestamp = header.base_timestamp + timestamp_delta if append_time is None else append_time
        if not _LEAST_TIME <= timestamp <= _MOST_TIME:
            timestamp = _as_long(timestamp)
        yield Record(header.base_offset + offset_delta, timestamp, None if key_size < 0 else b"", None)
    if position != len(data):
        raise InvalidRecord(f"{len(data) - position} bytes are left after the {header.record_count} records declared")


def check_record_sizes(
    batch: Buffer, header: BatchHeader, most_record_bytes: int, max_size: int = DEFAULT_MAX_SIZE
) -> None:
    """Raise OversizedRecord, with Kafka's text, for the first record of a v2 batch that has too many bytes."""
    check_sizes(_unpacked_records(batch, header, max_size), header, most_record_bytes)


def check_sizes(data: bytes, header: BatchHeader, most_record_bytes: int) -> None:
    """Raise OversizedRecord as `check_record_sizes` does; `data` are the records of the batch, uncompressed."""
    position = 0
    for _ in range(header.record_count):
        size, position = decode_varint(data, position)
        if size > most_record_bytes:
            raise _too_large(size, most_record_bytes)
        position += max(size, 0)


def _too_large(size: int, limit: int) -> OversizedRecord:
    return OversizedRecord(f"Invalid record size: {size} exceeds the configured maximum record size of {limit}.")


def _skip(data: bytes, position: int, size: int) -> int:
    stop = position + max(size, 0)
    if stop > len(data):
        raise InvalidRecord(f"a field of {size} bytes reaches past the end of the records")
    return stop


def decode_record(data: bytes, position: int) -> tuple[int, int, bytes | None, bytes | None, Headers, int]:
    """Return (timestamp delta, offset delta, key, value, headers, end position) of the record at `position`."""
    try:
        # Varints of one or two bytes are decoded inline, because nearly all are. Anything unusual is decoded again
        # below, from the start.
        size = data[position]
        at = position + 2  # after the attributes
        if size > 127:
            size += (data[at - 1] - 1) << 7
            at += 1
        end = at - 1 + (size >> 1)
        time_delta, offset_delta = data[at], data[at + 1]
        if time_delta < 128:
            time_delta = (time_delta >> 1) ^ -(time_delta & 1)
            at += 2
        else:
            time_delta, at = decode_varlong(data, at)
            offset_delta = data[at]
            at += 1
        if offset_delta > 127:
            offset_delta += (data[at] - 1) << 7
            at += 1
        key_size = data[at]
        at += 1
        if key_size > 127:
            key_size += (data[at] - 1) << 7
            at += 1
        stop = at + (key_size >> 1)
        value_size = data[stop]
        start = stop + 1
        if value_size > 127:
            value_size += (data[start] - 1) << 7
            start += 1
        behind = start + (value_size >> 1)
        has_key = key_size != _NULL
        varints = size | offset_delta | (key_size if has_key else 0) | value_size
        # All have at most two bytes, only a null key is negative, and there are no headers.
        if varints < _THREE_BYTES and not varints & 1 and behind == end - 1 and not data[behind]:
            key = data[at:stop] if has_key else None
            return time_delta, offset_delta >> 1, key, data[start:behind], (), end
    except (IndexError, InvalidRecord):
        pass
    return _decode_any_record(data, position)


def _decode_any_record(data: bytes, position: int) -> tuple[int, int, bytes | None, bytes | None, Headers, int]:
    try:
        length, position = decode_varint(data, position)
    except InvalidRecord as error:
        if len(data) - position < MAX_VARINT_SIZE:
            raise  # truncated
        raise UnreadableLength(str(error)) from None
    end = position + length
    if length < 0 or end > len(data):
        raise InvalidRecord(f"a record of {length} bytes does not fit into the {len(data) - position} that are left")
    timestamp_delta, position = decode_varlong(data, position + 1)
    offset_delta, position = decode_varint(data, position)
    key, position = _decode_bytes(data, position, end)
    value, position = _decode_bytes(data, position, end)
    count, position = decode_varint(data, position)
    headers: Headers = ()
    if count:
        headers, position = _decode_headers(data, position, end, count)
    if position != end:
        raise InvalidRecord(f"a record of {length} bytes has its fields end {end - position} bytes before its end")
    return timestamp_delta, offset_delta, key, value, headers, position


def decode_headers(data: bytes) -> Headers:
    """Decode the headers of a record from `data`, which begins after the value. Raises InvalidRecord."""
    count, position = decode_varint(data, 0)
    headers, position = _decode_headers(data, position, len(data), count)
    if position != len(data):
        raise InvalidRecord(f"a record has its fields end {len(data) - position} bytes before its end")
    return headers


def _decode_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = decode_varint(data, position)
    if length < 0:
        return None, position
    stop = position + length
    if stop > end:
        raise InvalidRecord(f"a field of {length} bytes reaches past the end of its record")
    return data[position:stop], stop


def _decode_headers(data: bytes, position: int, end: int, count: int) -> tuple[Headers, int]:
    # A header has at least two bytes, so a larger count is invalid.
    if count < 0 or count > end - position:
        raise InvalidRecord(f"{count} headers in {end - position} bytes")
    headers = []
    for _ in range(count):
        name, position = _decode_bytes(data, position, end)
        if name is None:
            raise InvalidRecord("a header without a key")
        content, position = _decode_bytes(data, position, end)
        headers.append((name.decode("utf-8", "surrogateescape"), content))
    return tuple(headers), position
