"""Process windows in which every batch is one record, as producers without linger.ms write them.

The batches have no transaction and no compression, as the window reports. If anything else is unusual, the functions
return False or None, and the caller processes the batches one by one.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cache

from protocol.records.batch import HEADER_SIZE, LOG_OVERHEAD
from storage.cleaner.batches import BatchWindow
from storage.cleaner.compiled_walk import walk_single
from storage.cleaner.heads import Heads
from storage.cleaner.keys import KeyTable
from storage.cleaner.record_keys import BatchKeys, add_tombstones
from storage.cleaner.record_rows import record_sizes

#: The first bytes of a size with one byte and with two bytes.
_OF_ONE_BYTE, _OF_TWO_BYTES = bytes(range(128)), bytes(range(128, 256))


def note_single(window: BatchWindow, table: KeyTable) -> bool:
    """Record the keys of the window's batches. Returns False if nothing was recorded."""
    offsets = window.single_offsets
    if offsets is None or len(offsets) > table.max_keys - table.size:
        return False
    first, last = _bounds(offsets)
    if first < table.start_offset or last >= table.end_offset:
        return False
    found = _read_keys(window)
    if found is None:
        return False
    table.note(found.keys, offsets, found.tombstones)
    table.latest_offset = max(table.latest_offset, last)
    return True


def single_marks(window: BatchWindow, table: KeyTable, kept_empty: Sequence[int]) -> bytearray | None:
    """Return the mark of each batch's record; None if the batches must be processed one by one.

    `kept_empty`: ascending offsets of batches that may have to be kept without records.
    """
    offsets, start = window.single_offsets, table.start_offset
    if offsets is None:
        return None
    first, last = _bounds(offsets)
    if last > table.latest_offset or bisect_left(kept_empty, first) < bisect_right(kept_empty, last):
        return None
    if first >= start:
        if isinstance(offsets, range):
            return table.marks[first - start : last - start + 1]
        return bytearray([table.marks[offset - start] for offset in offsets])
    found = _read_keys(window) if last < start else None
    return None if found is None else table.look_up(found.keys, found.tombstones)


def _bounds(offsets: Sequence[int]) -> tuple[int, int]:
    """Return the smallest and the largest offset."""
    return (offsets[0], offsets[-1]) if isinstance(offsets, range) else (min(offsets), max(offsets))


def _read_keys(window: BatchWindow) -> BatchKeys | None:
    """Return the keys of the window's batches, without offsets; None if some records are unusual."""
    found = None if window.heads is None else read_heads(window.heads)
    return walk_keys(window.data, window.starts, window.ends) if found is None else found


def read_heads(heads: Heads) -> BatchKeys | None:
    """Return the keys of batches whose keys all have one size; None if they do not."""
    record_at, data = HEADER_SIZE, heads.data
    if heads.size == record_at:
        return None
    two_bytes = data[record_at] > 127
    size_at = record_at + (5 if two_bytes else 4)
    key_size = data[size_at]
    value_at = size_at + 1 + (key_size >> 1)
    lengths = heads.lengths()
    if key_size & 0x81 or value_at + 1 != heads.size or min(lengths) + LOG_OVERHEAD <= value_at:
        return None
    # The record has the timestamp and the offset of its batch and ends with it.
    if not (heads.are(size_at - 2, 0) and heads.are(size_at - 1, 0) and heads.are(size_at, key_size)):
        return None
    if heads.column(record_at).translate(None, _OF_TWO_BYTES if two_bytes else _OF_ONE_BYTE):
        return None
    if array("I", map(_batch_lengths().__getitem__, heads.numbers(record_at, "H", "little"))) != lengths:
        return None
    found = BatchKeys([], [], [])
    add_tombstones(found, heads.column(value_at))
    found.keys.extend(heads.parts(size_at + 1, key_size >> 1))
    return found


@cache
def _batch_lengths() -> list[int]:
    """Return the batch lengths (as in headers) of one-record batches by the first two bytes of the record."""
    return [size and HEADER_SIZE - LOG_OVERHEAD + size for size in record_sizes()]


def walk_keys(data: bytes, starts: list[int], ends: list[int]) -> BatchKeys | None:
    """Read the keys record by record: for keys or records of many sizes, and always if this is compiled."""
    found = walk_single(data, starts, ends)
    return None if found is None else BatchKeys(found[0], [], found[1])
