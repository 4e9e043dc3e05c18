"""Batches that are one record each, as they are where a producer does not wait: a window of them together.

They are none of a transaction's and not compressed; the window says so. Where something else is not as it mostly is,
nothing is done, and they have to be looked at one by one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import sub

from protocol.records.batch import HEADER_SIZE
from storage.cleaner.batches import BatchWindow
from storage.cleaner.keys import KeyTable
from storage.cleaner.record_keys import BatchKeys, add_tombstones
from storage.cleaner.record_rows import read_single_rows, record_sizes


def note_single(window: BatchWindow, table: KeyTable) -> bool:
    """Note the keys of its batches; False: nothing was noted."""
    offsets = window.single_offsets
    if offsets is None or len(offsets) > table.max_keys - table.size:
        return False
    last = max(offsets)
    if min(offsets) < table.start_offset or last >= table.end_offset:
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
    in_a_row = isinstance(offsets, range)
    first, last = (offsets[0], offsets[-1]) if in_a_row else (min(offsets), max(offsets))
    if last > table.latest_offset or bisect_left(telling, first) < bisect_right(telling, last):
        return None
    if first >= start:
        if in_a_row:
            return table.marks[first - start : last - start + 1]
        return bytearray([table.marks[offset - start] for offset in offsets])
    found = _read_keys(window) if last < start else None
    return None if found is None else table.look_up(found.keys, found.tombstones)


def _read_keys(window: BatchWindow) -> BatchKeys | None:
    """The keys of its batches, without offsets. None: some records are not as they mostly are."""
    data = window.data
    positions = [start + HEADER_SIZE for start in window.starts]
    record_bytes = list(map(sub, window.ends, positions))
    rows = read_single_rows(data, positions, record_bytes)
    if rows is None:
        return _walk_keys(data, positions, record_bytes)
    found = BatchKeys([], [], [])
    add_tombstones(found, rows.value_sizes)
    found.keys.extend(rows.keys)
    return found


def _walk_keys(data: bytes, positions: list[int], record_bytes: list[int]) -> BatchKeys | None:
    """The same of records whose keys have many sizes, or which are now below 64 bytes and then not."""
    sizes = record_sizes()
    keys: list[bytes | None] = []
    tombstones = []
    add = keys.append
    for position, size in zip(positions, record_bytes, strict=True):
        first = data[position]
        if sizes[first | data[position + 1] << 8] != size:
            return None
        at = position + (5 if first > 127 else 4)
        key_size = data[at]
        if key_size & 0x81 or data[at - 2] or data[at - 1]:
            return None
        at += 1
        value_at = at + (key_size >> 1)
        if value_at >= position + size:
            return None
        add(data[at:value_at])
        if data[value_at] == 1:
            tombstones.append(len(keys) - 1)
    return BatchKeys(keys, [], tombstones)
