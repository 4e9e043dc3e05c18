"""Batches that are one record each, as they are where a producer does not wait: a window of them together.

They are none of a transaction's and not compressed; the window says so. Where something else is not as it mostly is,
nothing is done, and they have to be looked at one by one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import sub
from typing import Final

from protocol.records.batch import HEADER_SIZE
from storage.cleaner.batches import BatchWindow
from storage.cleaner.keys import KeyTable
from storage.cleaner.record_keys import BatchKeys, add_tombstones
from storage.cleaner.record_rows import read_single_rows

#: Whether this is the compiled twin, which walks faster than `struct` takes apart.
_COMPILED: Final = not __file__.endswith(".py")


def note_single(window: BatchWindow, table: KeyTable) -> bool:
    """Note the keys of its batches; False: nothing was noted."""
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


def single_marks(window: BatchWindow, table: KeyTable, telling: Sequence[int]) -> bytearray | None:
    """What becomes of the records of its batches. `telling`: offsets of those whose headers count; in order."""
    offsets, start = window.single_offsets, table.start_offset
    if offsets is None:
        return None
    first, last = _bounds(offsets)
    if last > table.latest_offset or bisect_left(telling, first) < bisect_right(telling, last):
        return None
    if first >= start:
        if isinstance(offsets, range):
            return table.marks[first - start : last - start + 1]
        return bytearray([table.marks[offset - start] for offset in offsets])
    found = _read_keys(window) if last < start else None
    return None if found is None else table.look_up(found.keys, found.tombstones)


def _bounds(offsets: Sequence[int]) -> tuple[int, int]:
    """The smallest and the largest one."""
    return (offsets[0], offsets[-1]) if isinstance(offsets, range) else (min(offsets), max(offsets))


def _read_keys(window: BatchWindow) -> BatchKeys | None:
    """The keys of its batches, without offsets. None: some records are not as they mostly are."""
    data = window.data
    if _COMPILED:
        return walk_keys(data, window.starts, window.ends)
    positions = [start + HEADER_SIZE for start in window.starts]
    rows = read_single_rows(data, positions, list(map(sub, window.ends, positions)))
    if rows is None:
        return walk_keys(data, window.starts, window.ends)
    found = BatchKeys([], [], [])
    add_tombstones(found, rows.value_sizes)
    found.keys.extend(rows.keys)
    return found


def walk_keys(data: bytes, starts: list[int], ends: list[int]) -> BatchKeys | None:
    """The same byte by byte: of keys of many sizes, of records now below 64 bytes and then not, and when compiled."""
    keys: list[bytes | None] = []
    tombstones = []
    add, header_size = keys.append, HEADER_SIZE
    for number, start in enumerate(starts):
        at, end = start + header_size, ends[number]
        if end - at < 7:
            return None
        size = data[at]
        at += 1
        if size > 127:
            more = data[at]
            if not 0 < more < 128:
                return None
            size = size & 127 | more << 7
            at += 1
        if size & 1 or at + (size >> 1) != end:
            return None
        # attributes, which say nothing; timestamp and offset are the batch's
        key_size = data[at + 3]
        if key_size & 0x81 or data[at + 1] or data[at + 2]:
            return None
        at += 4
        value_at = at + (key_size >> 1)
        if value_at >= end:
            return None
        add(data[at:value_at])
        if data[value_at] == 1:
            tombstones.append(number)
    return BatchKeys(keys, [], tombstones)
