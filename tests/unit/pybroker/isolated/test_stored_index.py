"""Index files that are preallocated or truncated."""

from __future__ import annotations

import pytest

from pybroker.isolated.stored_index import OFFSET_LAYOUT, TIME_LAYOUT, StoredIndex

ENTRIES = [(4, 100), (9, 300), (9, 350), (20, 600)]
WRITTEN = b"".join(OFFSET_LAYOUT.pack(*entry) for entry in ENTRIES)


@pytest.mark.parametrize("tail", [b"", bytes(8), bytes(80), bytes(83), b"\0\0\1"])
def test_zeros_and_a_partial_entry_are_ignored(tail: bytes) -> None:
    index = StoredIndex(WRITTEN + tail, OFFSET_LAYOUT)

    assert index.entries == 4
    assert index.last() == (20, 600)
    assert index.is_cut == (not tail)


@pytest.mark.parametrize(
    ("target", "found"), [(3, None), (4, (4, 100)), (9, (9, 350)), (19, (9, 350)), (99, (20, 600))]
)
def test_last_entry_not_above_a_value(target: int, found: tuple[int, int] | None) -> None:
    assert StoredIndex(WRITTEN, OFFSET_LAYOUT).last_at_most(target) == found


def test_entries_are_found_by_either_field() -> None:
    assert StoredIndex(WRITTEN, OFFSET_LAYOUT).last_at_most(340, field=1) == (9, 300)


def test_time_index_has_timestamps_of_eight_bytes() -> None:
    index = StoredIndex(TIME_LAYOUT.pack(1 << 40, 7) + bytes(12), TIME_LAYOUT)

    assert index.last() == (1 << 40, 7)
    assert not index.is_cut


@pytest.mark.parametrize("data", [b"", bytes(64), b"\1\2\3"])
def test_index_without_entries(data: bytes) -> None:
    index = StoredIndex(data, OFFSET_LAYOUT)

    assert index.last() is None
    assert index.last_at_most(1 << 30) is None
