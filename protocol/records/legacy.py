"""Read message sets, the formats before record batches: v0 (before 0.10) and v1 (0.10, with a timestamp).

    offset int64 | length int32 | crc uint32 | magic int8 | attributes int8 | [v1: timestamp int64] |
    keyLength int32 (-1 null) | key | valueLength int32 (-1 null) | value

The checksum is zlib's CRC-32 over magic to value. attributes: bits 0-2 codec (no zstd), bit 3 timestamp type (v1).

Compressed messages are wrapped: the value of a message with a codec is a message set. The offset of the wrapper is that
of its last inner message. Inner offsets are absolute in v0 and start at 0 in v1 (KIP-31). A v1 wrapper with
LogAppendTime overrides the timestamps of its inner messages (KIP-32). lz4 frames in v0 have a wrong header checksum, as
Kafka wrote it before KIP-57.
"""

import zlib
from collections.abc import Iterator
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import NamedTuple

from protocol.records.batch import CODEC_MASK, LOG_OVERHEAD, NO_TIMESTAMP, TIMESTAMP_TYPE_BIT, entry_at
from protocol.records.buffer import Buffer
from protocol.records.compression import DEFAULT_MAX_SIZE, Codec, decompress
from protocol.records.errors import CorruptBatch, InvalidRecord, TooLarge, UnsupportedCodec, WrongChecksum
from protocol.records.lz4_frame import with_right_header_checksum
from protocol.records.record import Record

_MESSAGE_START = Struct(">qiIbb")
_TIMESTAMP = Struct(">q")
_LENGTH = Struct(">i")
_CRC = Struct(">I")
#: The position of the magic byte, where the checksum begins.
_CRC_START = 16


class Message(NamedTuple):
    """One entry of a message set; a wrapper if `codec` is not 0. `timestamp` is in ms, -1 in v0."""

    offset: int
    size_bytes: int
    crc: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return self.magic == 1 and self.attributes & TIMESTAMP_TYPE_BIT != 0


def parse_message(buffer: Buffer, position: int = 0) -> Message:
    """Parse the v0 or v1 entry at `position`.

    Raises CorruptBatch for another magic byte or if the fields do not fill the entry.
    """
    try:
        offset, length, crc, magic, attributes = _MESSAGE_START.unpack_from(buffer, position)
        end = position + LOG_OVERHEAD + length
        if magic not in (0, 1):
            raise CorruptBatch(f"magic {magic} is not 0 or 1")
        at = position + _MESSAGE_START.size
        timestamp = NO_TIMESTAMP
        if magic == 1:
            timestamp = _TIMESTAMP.unpack_from(buffer, at)[0]
            at += 8
        key, at = _bytes_at(buffer, at, end)
        value, at = _bytes_at(buffer, at, end)
    except StructError:
        raise CorruptBatch(f"{len(buffer) - position} bytes are too short for a message") from None
    if at != end:
        raise CorruptBatch(f"the fields of a message of {length} bytes end {end - at} bytes before its end")
    return Message(offset, end - position, crc, magic, attributes, timestamp, key, value)


def verify_message_crc(buffer: Buffer, position: int, size: int) -> bool:
    """Return whether the checksum of the message of `size` bytes at `position` is correct."""
    view = memoryview(buffer)
    stored: int = _CRC.unpack_from(view, position + LOG_OVERHEAD)[0]
    return zlib.crc32(view[position + _CRC_START : position + size]) == stored


def iter_entry_records(
    entry: Buffer, max_size: int = DEFAULT_MAX_SIZE, *, max_records: int | None = None, verify_inner: bool = False
) -> Iterator[Record]:
    """Yield the record of one whole entry, or the records inside if it is a wrapper.

    With `verify_inner` a wrong checksum inside a wrapper raises WrongChecksum. The checksum of the entry itself is not
    verified. Raises TooLarge for more than `max_size` bytes or `max_records` inside, and InvalidRecord or CorruptBatch
    if the content is not a message set.
    """
    message = parse_message(entry)
    if message.codec == Codec.NONE:
        yield Record(message.offset, message.timestamp, message.key, message.value)
        return
    data = _inner_set(message, max_size)
    last_offset = _last_offset(data, max_records)
    shift = 0
    # Some versions of librdkafka send wrappers with offset 0, which is then the offset of the first message.
    if message.magic == 1 and message.offset:
        shift = message.offset - last_offset
        if shift < 0:
            raise InvalidRecord(f"wrapper offset {message.offset} is below its last message's {last_offset}")
    append_time = message.timestamp if message.is_log_append_time else None
    for each in _iter_inner(message, data, verify_inner):
        timestamp = each.timestamp if append_time is None else append_time
        yield Record(each.offset + shift, timestamp, each.key, each.value)


def unwrap(wrapper: Message, max_size: int = DEFAULT_MAX_SIZE) -> list[Message]:
    """Return the inner messages as they are encoded, at least one.

    Raises InvalidRecord if the wrapper has no value or no messages, or if an inner message has another magic byte or is
    itself compressed.
    """
    return list(_iter_inner(wrapper, _inner_set(wrapper, max_size)))


def _inner_set(wrapper: Message, max_size: int) -> bytes:
    """Return the message set inside a wrapper."""
    if wrapper.codec > Codec.LZ4:
        raise UnsupportedCodec(wrapper.codec)
    if wrapper.value is None:
        raise InvalidRecord("a compressed message set without a value")
    compressed = wrapper.value
    if wrapper.codec == Codec.LZ4 and wrapper.magic == 0:
        compressed = with_right_header_checksum(compressed)
    return decompress(wrapper.codec, compressed, max_size)


def _last_offset(data: bytes, max_records: int | None) -> int:
    """Return the last offset of a set of at least one message. Raises TooLarge for more than `max_records`."""
    count = position = offset = 0
    while (found := entry_at(data, position)) is not None:
        offset, size, _ = found
        count += 1
        position += size
        if count == max_records and position < len(data):
            raise TooLarge(f"a compressed message set holds more than {max_records} messages")
    if not count:
        raise InvalidRecord("a compressed message set without messages")
    return offset


def _iter_inner(wrapper: Message, data: bytes, verify: bool = False) -> Iterator[Message]:
    position = 0
    while (found := entry_at(data, position)) is not None:
        _, size, magic = found
        if magic != wrapper.magic:
            raise InvalidRecord(f"a message with magic {magic} inside a wrapper with magic {wrapper.magic}")
        message = parse_message(data, position)
        if verify and not verify_message_crc(data, position, size):
            raise WrongChecksum(f"the checksum of a message inside a wrapper is wrong (stored crc = {message.crc})")
        if message.codec != Codec.NONE:
            raise InvalidRecord("a compressed message inside a compressed message")
        yield message
        position += size
    if not position:
        raise InvalidRecord("a compressed message set without messages")


def _bytes_at(buffer: Buffer, position: int, end: int) -> tuple[bytes | None, int]:
    length: int = _LENGTH.unpack_from(buffer, position)[0]
    position += 4
    if length < 0:
        return None, position
    stop = position + length
    if stop > end or stop > len(buffer):
        raise CorruptBatch(f"a field of {length} bytes reaches past the end of its message")
    return bytes(buffer[position:stop]), stop
