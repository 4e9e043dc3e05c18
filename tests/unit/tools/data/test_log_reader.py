"""Reading a segment as Kafka's readers do."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from tests.support.logs import batch, sized
from tools.data import log_reader
from tools.data.dump.segment import Gaps, SegmentOptions, dump_segment
from tools.data.log_reader import LogReader
from tools.errors import DumpFailed


def segment(path: Path, *parts: bytes | bytearray) -> str:
    found = path / f"{0:020d}.log"
    found.write_bytes(b"".join(parts))
    return str(found)


def test_batches_across_windows_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One is larger than a window; its checksum is computed in pieces."""
    monkeypatch.setattr(log_reader, "_WINDOW", 128)
    path = segment(tmp_path, sized(100), sized(100), sized(1000), sized(100))
    with LogReader(path) as reader:
        entries = list(reader.entries())
        assert [(entry.position, entry.size_bytes) for entry in entries] == [
            (0, 100),
            (100, 100),
            (200, 1000),
            (1200, 100),
        ]
        assert all(reader.checksum(entry)[1] for entry in entries)


def test_wrong_checksum_does_not_end_the_segment(tmp_path: Path) -> None:
    """An unknown magic does not end it either."""
    wrong, later = batch(b"a"), batch(b"b")
    wrong[-1] ^= 1
    later[16] = 3
    with LogReader(segment(tmp_path, wrong, later)) as reader:
        assert [reader.checksum(entry)[1] for entry in reader.entries()] == [False, True]


@pytest.mark.parametrize(("cut", "count"), [(1, 1), (61, 1), (17, 1)])
def test_incomplete_entry_ends_the_segment(tmp_path: Path, cut: int, count: int) -> None:
    data = bytes(batch(b"a"))
    with LogReader(segment(tmp_path, data, data[:cut])) as reader:
        assert len(list(reader.entries())) == count


def test_impossible_length_is_an_error(tmp_path: Path) -> None:
    """The position of the next entry is unknown."""
    with LogReader(segment(tmp_path, bytes(100))) as reader, pytest.raises(DumpFailed, match="at position 0"):
        list(reader.entries())


def test_memory_does_not_grow_with_the_segment(tmp_path: Path) -> None:
    """O3: 96 MiB in batches of 64 KiB need a few of them at a time."""
    path = tmp_path / f"{0:020d}.log"
    with path.open("wb") as file:
        for _ in range(1536):
            file.write(sized(65536))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert sum(1 for _ in dump_segment(str(path), SegmentOptions(deep=True), Gaps())) > 3000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 24 << 10
