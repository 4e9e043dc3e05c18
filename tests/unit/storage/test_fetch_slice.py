"""FetchSlice: a range of an open file, its bytes, and whether reading it would wait for the disk."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.fetch_slice import FetchSlice
from storage.fs import LOCAL, FileSystem
from storage.open_files import OpenFile

DATA = bytes(range(256)) * 8192  # 2 MiB
#: The bytes per read of `warm`, and how far it reads ahead.
PIECE, AHEAD = 128 << 10, 2 << 20


class Telling(FileSystem):
    """Reports the given positions as cached, and records queries and reads."""

    def __init__(self, *cold: int, knows: bool = True) -> None:
        self.cold: tuple[int, ...] = cold
        self.knows = knows
        self.asked: list[int] = []
        self.read: list[tuple[int, int]] = []
        self.ahead: list[tuple[int, int]] = []
        self.furthest_ahead = 0
        self.hinted_before_reading = False

    def is_cached(self, handle: int, position: int) -> bool | None:
        self.asked.append(position)
        return position not in self.cold if self.knows else None

    def pread(self, handle: int, size: int, position: int) -> bytes:  # type: ignore[override]
        self.read.append((position, size))
        return FileSystem.pread(handle, size, position)

    def read_into(self, handle: int, buffer: bytearray | memoryview, position: int) -> int:
        self.read.append((position, len(buffer)))
        return super().read_into(handle, buffer, position)

    def read_ahead(self, handle: int, position: int, size: int) -> None:
        done = sum(size for _, size in self.read)
        self.ahead.append((position, size))
        self.furthest_ahead = max(self.furthest_ahead, position + size - done)
        super().read_ahead(handle, position, size)

    def disable_read_ahead(self, handle: int) -> None:
        self.hinted_before_reading = not self.ahead and not self.read
        super().disable_read_ahead(handle)


@pytest.fixture
def path(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "file").write_bytes(DATA)
    return iter([str(tmp_path / "file")])


def opened(path: Iterator[str], fs: FileSystem = LOCAL) -> OpenFile:
    return OpenFile(fs, fs.open_read(next(path)))


def test_slice_equals_the_file_range(path: Iterator[str]) -> None:
    piece = FetchSlice(LOCAL, opened(path), 10, 500)

    assert (len(piece), piece.read(), piece.read(100, 50)) == (500, DATA[10:510], DATA[110:160])
    assert piece.read(490, 100) == DATA[500:510]


def test_release_drops_the_file(path: Iterator[str]) -> None:
    piece = FetchSlice(LOCAL, opened(path), 0, 5)
    piece.release()
    piece.release()

    for use in (piece.fileno, piece.read):
        with pytest.raises(ValueError, match="released"):
            use()
    assert not piece.is_cold(0)


@pytest.mark.parametrize(("cold", "expected"), [((), False), ((5099,), True), ((100,), True), ((300,), False)])
def test_cold_is_judged_by_both_ends(path: Iterator[str], cold: tuple[int, ...], expected: bool) -> None:
    """The pages in between are taken to be like both ends."""
    fs = Telling(*cold)

    assert FetchSlice(fs, opened(path, fs), 100, 5000).is_cold(0) == expected
    assert fs.asked[0] == 5099


@pytest.mark.parametrize(("cold", "expected"), [((), False), ((599,), True), ((100,), False)])
def test_short_slice_is_judged_by_its_last_byte(path: Iterator[str], cold: tuple[int, ...], expected: bool) -> None:
    fs = Telling(*cold)

    assert FetchSlice(fs, opened(path, fs), 100, 500).is_cold(0) == expected
    assert fs.asked[0] == 599


BLOCK = 256 << 10


def asked_about(fs: Telling, file: OpenFile, position: int, now_ms: int = 0) -> tuple[bool, list[int]]:
    """Return whether 100 bytes at that position are cold, and which positions were queried."""
    fs.asked.clear()
    return FetchSlice(fs, file, position, 100).is_cold(now_ms), list(fs.asked)


def test_cached_block_is_not_queried_again(path: Iterator[str]) -> None:
    """From the queried position to the end of the block. A slice into another block is queried."""
    fs = Telling(3 * BLOCK - 1, 2 * BLOCK + 99)
    file = opened(path, fs)

    assert asked_about(fs, file, 500) == (False, [599, BLOCK - 1])
    for position in (500, 600, BLOCK // 2, BLOCK - 100):
        assert asked_about(fs, file, position) == (False, [])
    assert asked_about(fs, file, 499) == (False, [598, BLOCK - 1])  # the bytes before it may be evicted
    assert asked_about(fs, file, BLOCK - 50) == (False, [BLOCK + 49, 2 * BLOCK - 1])
    for _ in range(2):
        assert asked_about(fs, file, 2 * BLOCK + 500) == (False, [2 * BLOCK + 599, 3 * BLOCK - 1])
    assert asked_about(fs, file, 2 * BLOCK) == (True, [2 * BLOCK + 99])


def test_readers_at_many_positions_are_remembered(path: Iterator[str], tmp_path: Path) -> None:
    """The number of remembered blocks per file is limited; then it starts again."""
    long = tmp_path / "long"
    with long.open("wb") as sparse:
        sparse.truncate(200 * BLOCK)
    fs = Telling()
    file = opened(iter([str(long)]), fs)

    for block in range(60):
        assert asked_about(fs, file, block * BLOCK) == (False, [block * BLOCK + 99, (block + 1) * BLOCK - 1])
    for block in range(60):
        assert asked_about(fs, file, block * BLOCK + 100) == (False, [])
    for block in range(60, 200):
        assert not asked_about(fs, file, block * BLOCK)[0]
    assert 0 < len(file.cached) <= 64


def test_cached_block_is_queried_again_after_a_second(path: Iterator[str]) -> None:
    """The kernel may have evicted it, and sending would wait for the disk."""
    fs = Telling()
    file = opened(path, fs)
    assert asked_about(fs, file, 0, now_ms=5_000) == (False, [99, BLOCK - 1])

    fs.cold = (699,)
    assert asked_about(fs, file, 600, now_ms=5_999) == (False, [])
    assert asked_about(fs, file, 600, now_ms=6_000) == (True, [699])


def test_the_last_block_ends_with_the_file(path: Iterator[str], tmp_path: Path) -> None:
    """The last page of the file is queried, unless it belongs to the slice."""
    short = tmp_path / "short"
    short.write_bytes(DATA[:100_000])
    fs = Telling()
    file = opened(iter([str(short)]), fs)

    assert asked_about(fs, file, 0) == (False, [99, 99_999])
    for position in range(0, 100_000, 10_000):
        assert asked_about(fs, file, position) == (False, [])
    assert asked_about(fs, file, 99_900, now_ms=1_000) == (False, [99_999])
    assert asked_about(fs, file, 99_900, now_ms=1_000) == (False, [])


def test_bytes_in_memory_are_not_queried(path: Iterator[str]) -> None:
    fs = Telling(104)

    assert not FetchSlice(fs, opened(path, fs), 100, 5, b"bytes").is_cold(0)
    assert fs.asked == []


def test_unsupported_file_system_is_queried_once(path: Iterator[str]) -> None:
    fs = Telling(knows=False)
    file = opened(path, fs)

    assert [FetchSlice(fs, file, at, 5).is_cold(0) for at in (0, 10, 20)] == [False] * 3
    assert fs.asked == [4]


def test_failing_disk_counts_as_cold(path: Iterator[str]) -> None:
    """By the thread that waits for disks, not by the event loop."""

    class Failing(Telling):
        def is_cached(self, handle: int, position: int) -> bool | None:
            raise OSError(errno.EIO, "Input/output error")

    fs = Failing()

    assert FetchSlice(fs, opened(path, fs), 100, 5).is_cold(0)


class ReadingWhatIsAsked(Telling):
    """Newer Linux kernels read a page when it is queried, and report that it was missing."""

    def is_cached(self, handle: int, position: int) -> bool | None:
        cached = super().is_cached(handle, position)
        self.cold = tuple(each for each in self.cold if each != position)
        return cached


def test_queried_page_says_nothing_about_its_neighbours(path: Iterator[str]) -> None:
    """The first page is the end of an earlier read, so both ends of the slice would look cached."""
    fs = ReadingWhatIsAsked(300_099)
    file = opened(path, fs)
    piece = FetchSlice(fs, file, 100, 300_000)

    assert piece.is_cold(0)
    assert piece.is_cold(0), "asked again by somebody else, or by who did not wait"
    assert FetchSlice(fs, file, 300_099, 500_000).is_cold(0), "it begins in that page"
    piece.warm()
    assert not piece.is_cold(0)
    assert not file.unread


def test_number_of_remembered_missing_pages_is_limited(path: Iterator[str]) -> None:
    ends = [number * 4096 for number in range(1, 400)]
    fs = Telling(*(end - 1 for end in ends))
    file = opened(path, fs)

    assert all(FetchSlice(fs, file, end - 10, 10).is_cold(0) for end in ends)
    assert 0 < len(file.unread) <= 256


def test_warming_reads_in_pieces_and_reads_ahead(path: Iterator[str]) -> None:
    fs = Telling()
    FetchSlice(fs, opened(path, fs), 100, (256 << 10) + 7).warm()

    places = [100 + number * PIECE for number in range(3 + AHEAD // PIECE)]
    assert fs.read == [(at, PIECE) for at in places[:3]]
    assert fs.ahead == [(at, PIECE) for at in places]
    assert fs.hinted_before_reading


def test_warming_limits_the_read_ahead(path: Iterator[str]) -> None:
    """For a large slice only a limited range is requested beyond the bytes in memory."""
    fs = Telling()
    FetchSlice(fs, opened(path, fs), 0, 3 * AHEAD).warm()

    assert fs.furthest_ahead == AHEAD + PIECE
    assert sum(size for _, size in fs.read) == 3 * AHEAD


def test_warming_stops_at_the_end_of_the_file(path: Iterator[str]) -> None:
    file = opened(path)
    piece = FetchSlice(LOCAL, file, len(DATA) - 10, 10)
    piece.warm()

    assert LOCAL.is_cached(file.handle, len(DATA) - 1) in (True, None)
    assert piece.read() == DATA[-10:]


def test_system_reports_pages_that_were_just_read(path: Iterator[str]) -> None:
    """S17.4: True on most file systems, None on those that do not report it; never an error."""
    file = opened(path)
    LOCAL.pread(file.handle, 100, 0)

    assert LOCAL.is_cached(file.handle, 0) in (True, None)
    assert LOCAL.is_cached(file.handle, len(DATA) + 5) in (False, None)  # there is no such page
