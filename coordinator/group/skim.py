"""Plain offset commits in a piece of a log that is loaded: only the last commit of each key is decoded.

Nearly all records of `__consumer_offsets` are plain commits, as `plain_commit.py` and Apache Kafka write them. They
differ in a few fields, whose positions follow from the size of the record. So `struct` unpacks records, many at a time
if they have one size, and compares all constant fields at once. A record that does not match is no plain commit, or is
damaged: `coordinator/load.py` decodes such records.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct as Layout
from struct import error as LayoutError  # noqa: N812 - it is a class
from typing import NamedTuple

from coordinator.group.records import BARE_VALUE_SIZE, OFFSET_KEY_TYPE
from protocol.records.batch import CRC_START, HEADER_SIZE, LOG_OVERHEAD
from protocol.records.crc32c import crc32c
from protocol.records.errors import InvalidRecord
from protocol.records.record import KeyAndValue
from protocol.records.varint import decode_varint, encode_varint

#: The number of one-record batches that are read before the caller may pause.
_BATCHES_AT_A_TIME = 128

#: Base offset, length, magic, checksum, attributes, last offset delta, count.
_HEAD = Layout(">qi4x1sIhi30xi")
_MAGIC = b"\2"
#: The end of a record, from its value on. Its constant fields: the value's size and version, the size of its metadata,
#: the number and size of a tagged field, no headers.
_END = "3s12x1s8x3s16x1s"
_END_IS = (encode_varint(BARE_VALUE_SIZE) + b"\0\x04", b"\1", b"\1\0\x10", b"\0")
#: The distance of a value from the end of its record.
_VALUE_FROM_END = BARE_VALUE_SIZE + 1
#: The size of a record without its size field, offset delta, key and the size of its key: attributes, time delta, the
#: end.
_OTHERS_SIZE = 2 + 1 + _VALUE_FROM_END
#: A varint below this has one byte.
_ONE_BYTE = 64
#: The offset deltas of consecutive records.
_DELTAS = tuple(encode_varint(delta) for delta in range(1024))


class _Row(NamedTuple):
    """The positions of a record's fields, and its constant fields: size and attributes, the key's size and type."""

    layout: Layout
    front: bytes
    key_front: bytes
    key_size: int


class _Lone(NamedTuple):
    """The positions of the fields of a batch with one record, and its constant fields."""

    layout: Layout
    constant: tuple[bytes, ...]


@lru_cache(256)
def _row(length: int, delta_size: int) -> _Row | None:
    """Return the layout of a plain commit of this length with an offset delta of this size; None if there is none."""
    rest = length - _OTHERS_SIZE - delta_size
    key_size = rest - (1 if rest <= _ONE_BYTE else 2)
    front, key_front = encode_varint(length) + b"\0", encode_varint(key_size) + OFFSET_KEY_TYPE
    key_size -= len(OFFSET_KEY_TYPE)
    if key_size < 0 or len(key_front) + key_size != rest:
        return None
    layout = Layout(f">{len(front)}s1s{delta_size}s{len(key_front)}s{key_size}s{_END}")
    return _Row(layout, front, key_front, key_size)


@lru_cache(256)
def _lone(length: bytes) -> _Lone | None:
    """Return the layout of a batch of this length with one plain commit; None if no such batch can have it."""
    size = LOG_OVERHEAD + int.from_bytes(length, "big", signed=True) - HEADER_SIZE
    row = _row(size - (1 if size <= _ONE_BYTE else 2), 1)
    if row is None or row.layout.size != size:
        return None
    middle = b"".join((b"\0\0\0\1", row.front, b"\0\0", row.key_front))
    attributes = bytes(6)  # and the last offset delta
    layout = Layout(f">q8x1sI{len(attributes)}s30x{len(middle)}s{row.key_size}s{_END}")
    return _Lone(layout, (_MAGIC, attributes, middle, *_END_IS))


class CommitSkim:
    """A piece of a log, and the commits that were read from it; `len` is the number of their keys."""

    __slots__ = ("_data", "_found", "_view")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._view = memoryview(data)
        #: By key without its type: the offset, and the position of the value.
        self._found: dict[bytes, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._found)

    def take(self, position: int, from_offset: int) -> tuple[int, int] | None:
        """Read some batches of plain commits from `position` on. Return the next offset and the end position.

        Returns None if the next batch has other records, is damaged, begins before `from_offset`, or does not exist.
        """
        try:
            return self._take_lone(position, from_offset) or self._take_rows(position, from_offset)
        except (LayoutError, InvalidRecord):  # the piece or the batch ends too early
            return None

    def _take_lone(self, position: int, from_offset: int) -> tuple[int, int] | None:
        """Read batches of one record each."""
        data, view, found = self._data, self._view, self._found
        following = None
        for _ in range(_BATCHES_AT_A_TIME):
            lone = _lone(data[position + 8 : position + 12])
            if lone is None or position + lone.layout.size > len(data):
                break
            layout, constant = lone
            offset, magic, crc, attributes, middle, key, version, metadata, field, headers = layout.unpack_from(
                data, position
            )
            end = position + layout.size
            if (
                (magic, attributes, middle, version, metadata, field, headers) != constant
                or offset < from_offset
                or crc32c(view[position + CRC_START : end]) != crc
            ):
                break
            found[key] = offset, end - _VALUE_FROM_END
            following, position = offset + 1, end
        return None if following is None else (following, position)

    def _take_rows(self, position: int, from_offset: int) -> tuple[int, int] | None:
        """Read a batch of any number of records."""
        data, view = self._data, self._view
        base_offset, length, magic, crc, attributes, last_delta, count = _HEAD.unpack_from(data, position)
        end = position + LOG_OVERHEAD + length
        if magic != _MAGIC or attributes or base_offset < from_offset or last_delta < 0 or end > len(data):
            return None
        found: dict[bytes, tuple[int, int]] = {}
        at, number = position + HEADER_SIZE, 0
        while number < count:
            limit = min(count, _ONE_BYTE if number < _ONE_BYTE else len(_DELTAS)) - number
            row = _row(decode_varint(data, at)[0], 1 if number < _ONE_BYTE else 2)
            if row is None or limit < 1 or at >= end:
                return None
            layout, front, key_front, _ = row
            sizes = data[at : min(end, at + limit * layout.size) : layout.size]  # the first byte of each record
            alike = len(sizes) - len(sizes.lstrip(sizes[:1]))
            stop = at + alike * layout.size
            fronts, times, deltas, key_fronts, keys, *ends = zip(*layout.iter_unpack(view[at:stop]), strict=True)
            columns = zip((fronts, key_fronts, *ends), (front, key_front, *_END_IS), strict=True)
            if (
                deltas != _DELTAS[number : number + alike]
                or max(times) > b"\x7f"
                or any(column.count(constant) != alike for column, constant in columns)
            ):
                return None
            offsets = range(base_offset + number, base_offset + number + alike)
            values = range(at + layout.size - _VALUE_FROM_END, stop, layout.size)
            found.update(zip(keys, zip(offsets, values, strict=True), strict=True))
            at, number = stop, number + alike
        if at != end or crc32c(view[position + CRC_START : end]) != crc:
            return None
        self._found.update(found)
        return base_offset + last_delta + 1, end

    def records(self) -> list[KeyAndValue]:
        """Return the last commit of each key that was read, and forget them."""
        data, found = self._data, self._found
        self._found = {}
        return [(offset, OFFSET_KEY_TYPE + key, data[at : at + BARE_VALUE_SIZE]) for key, (offset, at) in found.items()]
