"""The time index: the documented sizes and examples, one entry per increase, one reserved entry."""

from pathlib import Path

import pytest

from storage.fs import LOCAL
from storage.index.time import TimeIndex, TimestampOffset
from storage.open_files import OpenFiles


def new_index(directory: Path, base_offset: int = 0, max_bytes: int = 10_485_760) -> TimeIndex:
    index = TimeIndex(OpenFiles(LOCAL), f"{directory}/{base_offset:020d}.timeindex", base_offset, 0)
    index.make_active(max_bytes)
    index.grow()
    return index


def test_active_index_is_rounded_down_to_a_multiple_of_twelve(tmp_path: Path) -> None:
    """S5.2: 10485756 bytes of 10485760."""
    assert Path(new_index(tmp_path).file.path).stat().st_size == 10_485_756


def test_entry_is_a_timestamp_and_a_relative_offset(tmp_path: Path) -> None:
    """S5.1."""
    index = new_index(tmp_path, 256715)
    index.maybe_append(1563248553235, 256716)
    index.trim()
    assert Path(index.file.path).read_bytes() == (1563248553235).to_bytes(8, "big") + (1).to_bytes(4, "big")


def test_no_entry_if_the_largest_timestamp_is_unchanged(tmp_path: Path) -> None:
    """S5.3, S5.8."""
    index = new_index(tmp_path)
    for timestamp, offset in [(100, 1), (100, 2), (90, 3), (101, 4), (-1, 5)]:
        index.maybe_append(timestamp, offset)
    assert [index.entry(number) for number in range(index.entries)] == [(100, 1), (101, 4)]
    assert index.last() == TimestampOffset(101, 4)


@pytest.mark.parametrize(
    ("timestamp", "expected"), [(99, (-1, 7)), (100, (100, 8)), (149, (100, 8)), (150, (150, 20)), (999, (200, 30))]
)
def test_look_up_returns_the_last_entry_not_later(timestamp: int, expected: tuple[int, int], tmp_path: Path) -> None:
    """S5.5, S5.7."""
    index = new_index(tmp_path, 7)
    for entry in [(100, 8), (150, 20), (200, 30)]:
        index.maybe_append(*entry)
    assert index.look_up(timestamp) == TimestampOffset(*expected)


def test_one_entry_is_reserved_for_the_roll(tmp_path: Path) -> None:
    """S13.4."""
    index = new_index(tmp_path, max_bytes=36)
    index.maybe_append(1, 1)
    assert index.entries < index.room
    index.maybe_append(2, 2)
    assert index.entries == index.room


@pytest.mark.parametrize("offset", [0, 5, 6, 39, 40, 200, 999])
def test_truncated_index_has_the_entries_below_the_offset(tmp_path: Path, offset: int) -> None:
    index = new_index(tmp_path)
    for number in range(40):
        index.maybe_append(1000 + number, 5 * number + 4)
    index.truncate_to(offset)
    kept = sum(5 * number + 4 < offset for number in range(40))
    assert index.entries == kept
    assert index.last() == ((1000 + kept - 1, 5 * kept - 1) if kept else (-1, 0))
    index.maybe_append(1000 + kept, offset)
    assert index.look_up(5000) == (1000 + kept, offset)
