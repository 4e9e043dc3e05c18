"""One record, and reading and writing the records of a batch.

    length varint | attributes int8 (unused) | timestampDelta varlong | offsetDelta varint |
    keyLength varint (-1 null) | key | valueLength varint (-1 null) | value |
    headerCount varint | (keyLength varint | key | valueLength varint (-1 null) | value) ...

Work a record: for readers of the broker's own topics, for cleaning, conversion and full validation. Never on the way
of a plain Produce or Fetch.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from protocol.records.batch import (
    HEADER_SIZE,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    advance_sequence,
    entry_at,
    parse_header,
)
from protocol.records.compression import DEFAULT_MAX_SIZE, Codec, decompress
from protocol.records.errors import CorruptBatch, InvalidRecord, UnreadableLength
from protocol.records.varint import MAX_VARINT_SIZE, decode_varint, decode_varlong, encode_varint

Buffer = bytes | bytearray | memoryview
Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """A record with its place: `timestamp` in ms (LogAppendTime already applied, -1 in v0), `sequence` -1 without."""

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
    """A record of a v2 batch, its length first. Header keys are UTF-8, read and written back without loss."""
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


def iter_records(buffer: Buffer, max_size: int = DEFAULT_MAX_SIZE) -> Iterator[Record]:
    """The records of all whole entries in `buffer`, of any format, in order; control records too.

    Decompresses, at most `max_size` bytes an entry. CorruptBatch, InvalidRecord, UnsupportedCodec as they are met.
    Verifies no checksum.
    """
    position = 0
    view = memoryview(buffer)
    while (entry := entry_at(view, position)) is not None:
        _, size, magic = entry
        if magic == 2:
            yield from iter_batch_records(view[position : position + size], max_size=max_size)
        elif magic in (0, 1):
            from protocol.records.legacy import iter_entry_records  # which itself needs Record

            yield from iter_entry_records(view[position : position + size], max_size=max_size)
        else:
            raise CorruptBatch(f"no format has magic {magic}")
        position += size


def iter_batch_records(
    batch: Buffer, header: BatchHeader | None = None, max_size: int = DEFAULT_MAX_SIZE
) -> Iterator[Record]:
    """The records of one whole v2 batch. InvalidRecord when count and bytes do not agree."""
    header = header or parse_header(batch)
    records = memoryview(batch)[HEADER_SIZE : header.size_bytes]
    codec = header.codec
    data = bytes(records) if codec == Codec.NONE else decompress(codec, records, max_size)
    base_offset, base_timestamp, base_sequence = header.base_offset, header.base_timestamp, header.base_sequence
    append_time = header.max_timestamp if header.attributes & TIMESTAMP_TYPE_BIT else None
    position = 0
    for _ in range(header.record_count):
        timestamp_delta, offset_delta, key, value, headers, position = decode_record(data, position)
        yield Record(
            base_offset + offset_delta,
            base_timestamp + timestamp_delta if append_time is None else append_time,
            key,
            value,
            headers,
            NO_SEQUENCE if base_sequence < 0 else advance_sequence(base_sequence, offset_delta),
        )
    if position != len(data):
        raise InvalidRecord(f"{len(data) - position} bytes are left after the {header.record_count} records declared")


def skim_records(batch: Buffer, header: BatchHeader, max_size: int = DEFAULT_MAX_SIZE) -> Iterator[Record]:
    """The records of a v2 batch without what is in them: an empty key where there is one, no value, no headers.

    As Kafka checks a compressed batch that stays as it is: a record is where its fields are, whatever its length says.
    InvalidRecord when count and bytes do not agree.
    """
    codec = header.codec
    records = memoryview(batch)[HEADER_SIZE : header.size_bytes]
    data = bytes(records) if codec == Codec.NONE else decompress(codec, records, max_size)
    append_time = header.max_timestamp if header.attributes & TIMESTAMP_TYPE_BIT else None
    position = 0
    for _ in range(header.record_count):
        _, position = decode_varint(data, position)
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
        yield Record(header.base_offset + offset_delta, timestamp, None if key_size < 0 else b"", None)
    if position != len(data):
        raise InvalidRecord(f"{len(data) - position} bytes are left after the {header.record_count} records declared")


def _skip(data: bytes, position: int, size: int) -> int:
    stop = position + max(size, 0)
    if stop > len(data):
        raise InvalidRecord(f"a field of {size} bytes reaches past the end of the records")
    return stop


def decode_record(data: bytes, position: int) -> tuple[int, int, bytes | None, bytes | None, Headers, int]:
    """(timestamp delta, offset delta, key, value, headers, end position) of the record at `position`."""
    try:
        length, position = decode_varint(data, position)
    except InvalidRecord as error:
        if len(data) - position < MAX_VARINT_SIZE:
            raise  # it is cut off
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


def _decode_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = decode_varint(data, position)
    if length < 0:
        return None, position
    stop = position + length
    if stop > end:
        raise InvalidRecord(f"a field of {length} bytes reaches past the end of its record")
    return data[position:stop], stop


def _decode_headers(data: bytes, position: int, end: int, count: int) -> tuple[Headers, int]:
    # A header has at least two bytes, so a count beyond that is a lie told before any of them is read.
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
