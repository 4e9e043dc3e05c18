"""The offset index: the documented examples, look-ups over any number of entries, and its size while active."""

from bisect import bisect_right
from pathlib import Path
from random import Random
from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.errors import CorruptFile
from storage.fs import LOCAL
from storage.index.offset import OffsetIndex, OffsetPosition
from storage.open_files import OpenFiles
from tests.support.disk_doubles.failing_fs import FailingFileSystem


def new_index(directory: Path, base_offset: int = 0, max_bytes: int = 1 << 20) -> OffsetIndex:
    path = f"{directory}/{base_offset:020d}.index"
    Path(path).unlink(missing_ok=True)
    index = OffsetIndex(OpenFiles(LOCAL), path, base_offset, 0)
    index.make_active(max_bytes)
    index.grow()
    return index


def reopened(index: OffsetIndex) -> OffsetIndex:
    path = index.file.path
    return OffsetIndex(OpenFiles(LOCAL), path, index.base_offset, Path(path).stat().st_size)


@pytest.mark.parametrize(
    ("base_offset", "entries", "target", "expected"),
    [
        (368769, [(368772, 497)], 368772, (368772, 497)),  # S4.10
        (368769, [(368772, 497)], 368776, (368772, 497)),  # S4.10
        (170410, [(170413, 348), (170418, 1325)], 170418, (170418, 1325)),  # S4.11
        (170410, [(170413, 348), (170418, 1325)], 170417, (170413, 348)),  # S4.11
        (800, [(900, 0x40), (995, 0x01 << 8), (1010, 0x200)], 1000, (995, 0x100)),  # S4.12
        (0, [], 5, (0, 0)),
        (10, [(12, 7)], 11, (10, 0)),
    ],
)
def test_look_up_returns_the_last_entry_not_above(
    base_offset: int, entries: list[tuple[int, int]], target: int, expected: tuple[int, int], tmp_path: Path
) -> None:
    """S4.9-S4.12: floor search; the start of the segment if no entry is low enough."""
    index = new_index(tmp_path, base_offset)
    for offset, position in entries:
        index.append(offset, position)
    assert index.look_up(target) == OffsetPosition(*expected)
    index.trim()
    assert reopened(index).look_up(target) == OffsetPosition(*expected)


def test_entry_is_two_big_endian_ints_relative_to_the_base(tmp_path: Path) -> None:
    """S4.3-S4.5."""
    index = new_index(tmp_path, 1000)
    index.append(1003, 497)
    index.trim()
    assert Path(index.file.path).read_bytes() == b"\0\0\0\x03\0\0\x01\xf1"


@pytest.mark.parametrize(("max_bytes", "size"), [(10_485_760, 10_485_760), (67, 64), (8, 8), (4, 0)])
def test_active_index_has_its_full_size_rounded_to_entries(max_bytes: int, size: int, tmp_path: Path) -> None:
    """S4.6, S4.7: preallocated but sparse while active, truncated on roll."""
    index = new_index(tmp_path, max_bytes=max_bytes)
    path = Path(index.file.path)
    assert path.stat().st_size == size
    assert path.stat().st_blocks == 0
    if size:
        index.append(5, 100)
    index.trim()
    assert path.stat().st_size == (8 if size else 0)


def test_index_is_full_when_the_size_is_reached(tmp_path: Path) -> None:
    """S13.4."""
    index = new_index(tmp_path, max_bytes=24)
    for number in range(3):
        assert index.entries < index.room
        index.append(number + 1, 10 * (number + 1))
    assert index.entries == index.room


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 40), max_size=1500), st.data())
def test_look_up_equals_a_search_in_a_list(gaps: list[int], data: st.DataObject) -> None:
    """For written, buffered and windowed entries."""
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        index = new_index(Path(directory), 100)
        entries, offset = [], 100
        for gap in gaps:
            offset += gap
            entries.append((offset, 7 * (offset - 100)))
            index.append(*entries[-1])
        targets = data.draw(st.lists(st.integers(100, offset + 5), max_size=20))
        for searched in (index, None):
            if searched is None:
                index.trim()
                searched = reopened(index)
            for target in targets:
                floor = max(((o, p) for o, p in entries if o <= target), default=(100, 0))
                assert searched.look_up(target) == floor
                below = max((p for _, p in entries if p <= target), default=0)
                assert searched.before_position(target) == below
                assert searched.above_position(target) == next((o for o, p in entries if p >= target), None)


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 70])
def test_cleared_active_index_keeps_its_size(count: int, tmp_path: Path) -> None:
    """Both written and buffered entries are removed."""
    index = new_index(tmp_path)
    for number in range(1, 1 + count):
        index.append(number, 10 * number)
    index.clear()
    assert Path(index.file.path).stat().st_size == 1 << 20
    assert not any(Path(index.file.path).read_bytes())
    assert index.last() == (0, 0)
    index.append(1000, 10_000)
    index.trim()
    assert reopened(index).entries == 1
    assert reopened(index).last() == (1000, 10_000)


def test_file_that_is_shorter_than_its_entries_is_corrupt(tmp_path: Path) -> None:
    """Rule R6: an error, never a wrong result."""
    index = new_index(tmp_path)
    for number in range(1, 9):
        index.append(number, 10 * number)
    index.trim()
    again = reopened(index)
    Path(index.file.path).write_bytes(b"")
    with pytest.raises(CorruptFile):
        again.look_up(5)
    Path(index.file.path).unlink()
    missing = OffsetIndex(OpenFiles(LOCAL), index.file.path, 0, 8)
    with pytest.raises(CorruptFile):
        missing.look_up(5)


def test_zeros_at_the_end_are_corrupt(tmp_path: Path) -> None:
    """Rule R6: an index that was not truncated to its entries is not used."""
    path = tmp_path / f"{0:020d}.index"
    path.write_bytes(b"\0\0\0\x03\0\0\x01\xf1" + bytes(64))
    with pytest.raises(CorruptFile):
        OffsetIndex(OpenFiles(LOCAL), str(path), 0, 72).last()


@pytest.mark.parametrize("step", [1, 95, 5_000, 60_000, -700, -60_000], ids=str)
def test_look_ups_of_readers_that_move_in_steps(step: int, tmp_path: Path) -> None:
    """Forwards and backwards, within the window, in the next one and beyond: the same result as a search."""
    index = new_index(tmp_path, max_bytes=1 << 20)
    offsets = [10 * number + 9 for number in range(3000)]
    for number, offset in enumerate(offsets):
        index.append(offset, number + 1)
    index.trim()
    for target in range(*((0, 30_100, step) if step > 0 else (30_100, 0, step))):
        place = bisect_right(offsets, target)
        assert index.look_up(target) == (OffsetPosition(offsets[place - 1], place) if place else OffsetPosition(0, 0))


def test_large_index_is_searched_with_few_reads(tmp_path: Path) -> None:
    """S4.9: first look-ups read probes, later ones a window, and sequential ones only the next window."""
    entries = 64 * 1024
    path = tmp_path / "0.index"
    path.write_bytes(b"".join(pack(">ii", 4 * number + 3, 100 * number + 1) for number in range(entries)))
    fs = FailingFileSystem()
    index = OffsetIndex(OpenFiles(fs), str(path), 0, 8 * entries)

    def look_up(offset: int) -> int:
        before = fs.calls.count("pread")
        assert index.look_up(offset) == ((offset - 3) // 4 * 4 + 3, (offset - 3) // 4 * 100 + 1)
        return fs.calls.count("pread") - before

    chosen = Random(4)
    for _ in range(2000):
        assert look_up(chosen.randrange(3, 4 * entries)) <= 8
    reads = [look_up(chosen.randrange(3, 4 * entries)) for _ in range(200)]
    assert max(reads) <= 3
    assert sum(reads) < 2.2 * len(reads), "the piece behind the last one is for those that go on"
    assert sum(look_up(offset) for offset in range(100_003, 100_003 + 4 * 4096, 16)) <= 9 + 8
    index.clear()
    assert index.look_up(10**6) == (0, 0)


def test_cache_is_released_with_the_descriptor(tmp_path: Path) -> None:
    """The cache is released with the descriptor, so memory depends only on the number of open files."""
    files = OpenFiles(LOCAL, 2)
    found = []
    for number in range(5):
        path = tmp_path / f"{number}.index"
        path.write_bytes(b"".join(pack(">ii", 4 * each + 3, each + 1) for each in range(2000)))
        found.append(OffsetIndex(files, str(path), 0, 16_000))
        assert found[-1].look_up(4003) == (4003, 1001)
    assert sum(index.file.open_file is not None for index in found) == 2
    assert [index.look_up(7).position for index in found] == [2] * 5


@pytest.mark.parametrize("offset", [100, 101, 110, 111, 230, 260, 420, 421, 430])
def test_truncated_index_has_the_entries_below_the_offset(tmp_path: Path, offset: int) -> None:
    """Whether they are in the file, in the cached range or still in memory; also once the segment is closed."""
    expected = [number for number in range(33) if 110 + 10 * number < offset]
    for active in (True, False):
        index = new_index(tmp_path, 100)
        for number in range(33):
            index.append(110 + 10 * number, 1000 * (number + 1))
        if not active:
            index.trim()
        index.look_up(300)
        index.truncate_to(offset)
        assert index.entries == len(expected)
        assert index.last() == (OffsetPosition(110 + 10 * expected[-1], 1000 * len(expected)) if expected else (100, 0))
        index.append(440, 50_000)
        assert index.look_up(9999) == (440, 50_000)
        index.trim()
        assert [reopened(index).entry(number)[0] for number in range(index.entries)] == [
            *(10 + 10 * number for number in expected),
            340,
        ]
