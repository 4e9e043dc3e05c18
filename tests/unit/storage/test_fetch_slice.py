"""FetchSlice: a piece of an open file, its bytes, and whether they would have to be waited for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.fetch_slice import FetchSlice
from storage.fs import LOCAL, FileSystem
from storage.open_files import OpenFile

DATA = bytes(range(256)) * 8192  # 2 MiB


class Telling(FileSystem):
    """Says which positions are cached, and notes what is asked and read."""

    def __init__(self, *cold: int, knows: bool = True) -> None:
        self.cold = cold
        self.knows = knows
        self.asked: list[int] = []
        self.read: list[tuple[int, int]] = []

    def is_cached(self, handle: int, position: int) -> bool | None:
        self.asked.append(position)
        return position not in self.cold if self.knows else None

    def pread(self, handle: int, size: int, position: int) -> bytes:  # type: ignore[override]
        self.read.append((position, size))
        return FileSystem.pread(handle, size, position)


@pytest.fixture
def path(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "file").write_bytes(DATA)
    return iter([str(tmp_path / "file")])


def opened(path: Iterator[str], fs: FileSystem = LOCAL) -> OpenFile:
    return OpenFile(fs, fs.open_read(next(path)))


def test_it_is_what_lies_in_the_file(path: Iterator[str]) -> None:
    piece = FetchSlice(LOCAL, opened(path), 10, 500)

    assert (len(piece), piece.read(), piece.read(100, 50)) == (500, DATA[10:510], DATA[110:160])
    assert piece.read(490, 100) == DATA[500:510]


def test_released_it_lets_go_of_the_file(path: Iterator[str]) -> None:
    piece = FetchSlice(LOCAL, opened(path), 0, 5)
    piece.release()
    piece.release()

    for use in (piece.fileno, piece.read):
        with pytest.raises(ValueError, match="released"):
            use()
    assert not piece.is_cold()


@pytest.mark.parametrize(("cold", "expected"), [((), False), ((599,), True), ((300,), False)])
def test_cold_is_told_by_the_last_byte(path: Iterator[str], cold: tuple[int, ...], expected: bool) -> None:
    """The first page was read to find the slice."""
    fs = Telling(*cold)

    assert FetchSlice(fs, opened(path, fs), 100, 500).is_cold() == expected
    assert fs.asked[0] == 599


def test_a_block_whose_last_page_is_cached_is_not_asked_about_again(path: Iterator[str]) -> None:
    """256 KiB; one at a time. What reaches into another is asked about."""
    fs = Telling((3 << 18) - 1, (2 << 18) + 99)
    file = opened(path, fs)
    cold = []
    for position in (0, 100, 1 << 17, (1 << 18) - 100, (1 << 18) + 100, (2 << 18) + 500, (2 << 18) + 600, 2 << 18):
        fs.asked.clear()
        cold.append((FetchSlice(fs, file, position, 100).is_cold(), len(fs.asked)))

    assert cold == [
        (False, 2),
        (False, 0),
        (False, 0),
        (False, 0),
        (False, 2),
        (False, 2),  # its block's last page is not cached
        (False, 2),
        (True, 1),
    ]


def test_what_was_appended_just_now_is_not_asked_about(path: Iterator[str]) -> None:
    fs = Telling(100)

    assert not FetchSlice(fs, opened(path, fs), 100, 500, is_recent=True).is_cold()
    assert fs.asked == []


def test_a_file_system_that_cannot_tell_is_asked_once(path: Iterator[str]) -> None:
    fs = Telling(knows=False)
    file = opened(path, fs)

    assert [FetchSlice(fs, file, at, 5).is_cold() for at in (0, 10, 20)] == [False] * 3
    assert fs.asked == [4]


def test_warming_reads_it_piece_by_piece(path: Iterator[str]) -> None:
    fs = Telling()
    FetchSlice(fs, opened(path, fs), 100, (1 << 20) + 7).warm()

    assert fs.read == [(100, 1 << 20), (100 + (1 << 20), 7)]


def test_the_system_knows_what_it_has_just_read(path: Iterator[str]) -> None:
    """S17.4: true on most file systems, None on those that do not say; never an error."""
    file = opened(path)
    LOCAL.pread(file.handle, 100, 0)

    assert LOCAL.is_cached(file.handle, 0) in (True, None)
    assert LOCAL.is_cached(file.handle, len(DATA) + 5) in (False, None)  # there is no such page
