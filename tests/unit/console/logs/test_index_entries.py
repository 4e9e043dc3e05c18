"""Entries of index files, which may be many, in files with much free space."""

from __future__ import annotations

import sys
from pathlib import Path
from struct import Struct

import pytest

from console.anatomy.index import INDEX_KINDS
from console.logs.index_entries import OffsetEntries, OffsetEntry, offset_entries, read_index
from console.logs.segment import Segment

COUNT = 50_000
ROOM_BYTES = 1 << 20
ENTRY = Struct(">ii")


def segment(folder: Path, suffix: str, data: bytes) -> Segment:
    """Return a segment with this index."""
    made = Segment(str(folder), 1000, {"log": 0, suffix: len(data)})
    Path(made.path(suffix)).write_bytes(data)
    return made


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"", 0),
        (bytes(80), 0),
        (ENTRY.pack(5, 0x10000) + bytes(80), 1),  # its own zeros are no free space
        (ENTRY.pack(5, 16) + ENTRY.pack(9, 0x01000000) + bytes(5), 2),
        (ENTRY.pack(5, 16) + b"\0\0\0\7to", 1),
    ],
)
def test_entries_in_use_precede_the_free_space(tmp_path: Path, data: bytes, count: int) -> None:
    index = read_index(segment(tmp_path, "index", data), "index", INDEX_KINDS["index"])
    assert (index.count, index.data, index.file_bytes) == (count, data[: 8 * count], len(data))


def test_many_entries_are_sampled(tmp_path: Path) -> None:
    """The free space is not scanned either."""
    data = b"".join(ENTRY.pack(10 * number + 9, 100 * number) for number in range(COUNT))
    full = segment(tmp_path, "index", data + bytes(ROOM_BYTES - len(data)))
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        entries = offset_entries(full)
        found = entries.floor(1000 + 10 * 777)
        pointing = entries.within(250, 500, 50)
    finally:
        sys.setprofile(before)

    assert len(entries) == COUNT
    assert found == OffsetEntry(776, 1000 + 7769, 77_600)
    assert pointing == [OffsetEntry(number, 1000 + 10 * number + 9, 100 * number) for number in (3, 4)]
    assert calls < 5_000


def test_entries_at_both_ends_are_found() -> None:
    """Below the first there is none; above the last it is the last."""
    entries = OffsetEntries(ENTRY.pack(9, 100) + ENTRY.pack(19, 200), 0)
    assert entries.floor(8) is None
    assert entries.floor(9) == OffsetEntry(0, 9, 100)
    assert entries.floor(99) == OffsetEntry(1, 19, 200)
    assert entries.within(0, 1000, 50) == [OffsetEntry(0, 9, 100), OffsetEntry(1, 19, 200)]
    assert entries.within(201, 1000, 50) == []
    assert OffsetEntries(b"", 0).floor(7) is None


def test_entries_of_a_damaged_file_are_limited() -> None:
    """All of them point to one byte."""
    assert len(OffsetEntries(ENTRY.pack(9, 100) * 1000, 0).within(0, 1000, 50)) == 50
