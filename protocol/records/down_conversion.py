"""Convert records to an older format for consumers that do not support newer ones (Fetch v0-v3).

Information that the older format cannot hold is dropped: headers, producer ids and sequence numbers, and in v0
timestamps. Control batches are dropped as a whole. A compressed batch becomes one wrapper with the same codec; any
other batch becomes one message per record. Messages do not support zstd (KIP-110).
"""

from collections.abc import Iterable
from typing import NamedTuple

from protocol.records.batch import LOG_APPEND_TIME, entry_at, parse_header
from protocol.records.buffer import Buffer
from protocol.records.compression import DEFAULT_MAX_SIZE, Codec
from protocol.records.errors import RecordsError, TooLarge, UnsupportedCodec
from protocol.records.legacy import iter_entry_records, parse_message
from protocol.records.legacy_builder import MessageSetBuilder
from protocol.records.record import Record, iter_batch_records

#: The maximum number of records of a batch, whose conversion takes some seconds.
_MOST_RECORDS = 1 << 20
#: The first bytes of a message that is incomplete in the response. Consumers see that the next message is larger than
#: their limit.
CUT_OFF_MESSAGE = (-1).to_bytes(8, "big", signed=True) + (0x7FFFFFFF).to_bytes(4, "big")


class Converted(NamedTuple):
    """A message set, and the offset after the records it was made from. The set may be empty."""

    records: bytes
    next_offset: int


def convert_down(records: Buffer, magic: int, first_offset: int, max_size: int = DEFAULT_MAX_SIZE) -> Converted:
    """Convert the whole entries of `records` to a message set whose entries have at most `magic` (0 or 1).

    The set is not larger than `records`, except for the first batch, which is always complete. Records of uncompressed
    batches below `first_offset` are dropped, because some consumers expect it in the first message. If an entry cannot
    be converted, the result has the entries before it; if there are none, UnsupportedCodec or another error of records
    is raised. Raises TooLarge for a batch of more than `max_size` uncompressed bytes or of too many records.
    """
    view = memoryview(records)
    parts: list[bytes] = []
    size = position = 0
    next_offset = first_offset
    while (found := entry_at(view, position)) is not None:
        _, entry_size, entry_magic = found
        entry = view[position : position + entry_size]
        try:
            part, end = _convert(entry, entry_magic, magic, first_offset, max_size)
        except RecordsError:
            if not parts:
                raise
            break
        if parts and size + len(part) > len(view):
            part, end = _fitting(part, len(view) - size)
            return Converted(b"".join((*parts, part)), max(next_offset, end))
        if part:
            parts.append(part)
        size += len(part)
        position += entry_size
        next_offset = max(next_offset, end)
    return Converted(b"".join(parts), next_offset)


def _fitting(messages: bytes, room: int) -> tuple[bytes, int]:
    """Return the leading messages that fit into `room` bytes, and the offset after them, -1 if there are none."""
    position, next_offset = 0, -1
    while (found := entry_at(messages, position)) is not None and position + found[1] <= room:
        position += found[1]
        next_offset = found[0] + 1
    return messages[:position], next_offset


def _convert(entry: memoryview, magic: int, target: int, first_offset: int, max_size: int) -> tuple[bytes, int]:
    """Convert one entry. Return its messages and the offset after it."""
    if magic < 2:
        message = parse_message(entry)
        end = message.offset + 1
        if magic <= target:
            return bytes(entry), end
        return _message_set(iter_entry_records(entry, max_size), target, message.codec, None, first_offset), end
    header = parse_header(entry)
    if header.is_control:
        return b"", header.next_offset
    if header.codec == Codec.ZSTD:
        raise UnsupportedCodec(header.codec)
    append_time = header.max_timestamp if header.timestamp_type == LOG_APPEND_TIME else None
    found = iter_batch_records(entry, header, max_size)
    return _message_set(found, target, header.codec, append_time, first_offset), header.next_offset


def _message_set(
    records: Iterable[Record], magic: int, codec: int, append_time_ms: int | None, first_offset: int
) -> bytes:
    builder = MessageSetBuilder(magic, codec=codec, log_append_time_ms=append_time_ms)
    for record in records:
        if codec or record.offset >= first_offset:
            if builder.message_count == _MOST_RECORDS:
                raise TooLarge(f"compressed records are more than {_MOST_RECORDS}")
            builder.append(record.timestamp, record.key, record.value, offset=record.offset)
    return builder.build()
