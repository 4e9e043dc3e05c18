"""Whole batches among bytes of a remote segment, with their checksums verified."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from protocol.records.batch import verify_crc
from protocol.records.errors import CorruptBatch
from protocol.records.legacy import verify_message_crc
from remote.errors import Damaged
from storage.segment.scan import parse_entry

#: The least distance of two batches whose positions are kept. A search reads headers from there on.
_MARK_BYTES = 4096
_MAGIC_V2 = 2


class Marks:
    """Positions of some batches, ascending, by the offset at which each begins."""

    __slots__ = ("_offsets", "_positions")

    def __init__(self) -> None:
        self._offsets = array("q")
        self._positions = array("i")

    def add(self, offset: int, position: int) -> None:
        """Keep the position of a batch, unless it is near the last one."""
        if not self._positions or position - self._positions[-1] >= _MARK_BYTES:
            self._offsets.append(offset)
            self._positions.append(position)

    def at_or_before(self, offset: int) -> int:
        """Return the position of the last batch that is kept and begins at `offset` or before; else the first one."""
        return self._positions[max(0, bisect_right(self._offsets, offset) - 1)]

    def offset_after(self, position: int) -> int | None:
        """Return the first offset that is kept of a batch at `position` or behind it; None if there is none."""
        at = bisect_left(self._positions, position)
        return self._offsets[at] if at < len(self._offsets) else None


class WholeBatches(NamedTuple):
    """The batches that are completely within some bytes.

    `size_bytes` is where the last one ends, and `end_offset` the offset after its last record. Both are of the first
    batch that is cut off if there is no whole one: then `marks` is None, and `size_bytes` of it are needed.
    """

    first_offset: int
    end_offset: int
    size_bytes: int
    marks: Marks | None


def whole_batches(key: str, data: bytes, position: int) -> WholeBatches:
    """Examine `data`, in which a batch begins, from `position` of a segment.

    Raises Damaged with `key` if a header is impossible, a checksum is wrong, or nothing can be recognised.
    """
    view, marks = memoryview(data), Marks()
    at = 0
    first_offset = end_offset = -1
    try:
        while (entry := parse_entry(view, at, position + at)) is not None:
            if at + entry.size_bytes > len(data):
                if not at:
                    return WholeBatches(entry.base_offset, entry.last_offset + 1, entry.size_bytes, None)
                break
            verify = verify_crc if entry.magic == _MAGIC_V2 else verify_message_crc
            if not verify(view, at, entry.size_bytes):
                raise Damaged(key, f"the checksum of the batch at byte {position + at} is wrong")
            if entry.last_offset < end_offset:
                raise Damaged(key, f"offset {entry.last_offset} at byte {position + at} follows {end_offset - 1}")
            if not at:
                first_offset = entry.base_offset
            marks.add(entry.base_offset, at)
            end_offset = entry.last_offset + 1
            at += entry.size_bytes
    except CorruptBatch as error:
        raise Damaged(key, error) from error
    if not at:
        raise Damaged(key, f"no batch begins at byte {position}")
    return WholeBatches(first_offset, end_offset, at, marks)
