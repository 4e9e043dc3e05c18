"""Entries of index files, of which there may be very many, and far more room for others."""

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
    """With this index."""
    made = Segment(str(folder), 1000, {"log": 0, suffix: len(data)})
    Path(made.path(suffix)).write_bytes(data)
    return made


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"", 0),
        (bytes(80), 0),
        (ENTRY.pack(5, 0x10000) + bytes(80), 1),  # its own zeros are not room
        (ENTRY.pack(5, 16) + ENTRY.pack(9, 0x01000000) + bytes(5), 2),
        (ENTRY.pack(5, 16) + b"\0\0\0\7to", 1),
    ],
)
def test_entries_in_use(tmp_path: Path, data: bytes, count: int) -> None:
    """Whole ones, before the zeros."""
    index = read_index(segment(tmp_path, "index", data), "index", INDEX_KINDS["index"])
    assert (index.count, index.data, index.file_bytes) == (count, data[: 8 * count], len(data))


def test_of_very_many_entries_few_are_looked_at(tmp_path: Path) -> None:
    """Nor is the room behind them gone through in steps."""
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


def test_entries_at_the_ends() -> None:
    """Below the first there is none; behind the last it is the last."""
    entries = OffsetEntries(ENTRY.pack(9, 100) + ENTRY.pack(19, 200), 0)
    assert entries.floor(8) is None
    assert entries.floor(9) == OffsetEntry(0, 9, 100)
    assert entries.floor(99) == OffsetEntry(1, 19, 200)
    assert entries.within(0, 1000, 50) == [OffsetEntry(0, 9, 100), OffsetEntry(1, 19, 200)]
    assert entries.within(201, 1000, 50) == []
    assert OffsetEntries(b"", 0).floor(7) is None


def test_entries_of_a_damaged_file_are_bounded() -> None:
    """All of them point to one byte."""
    assert len(OffsetEntries(ENTRY.pack(9, 100) * 1000, 0).within(0, 1000, 50)) == 50
