"""Walking a segment as Kafka's readers do."""

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


def test_batches_that_cross_a_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that is larger than what is read at a time; its checksum is taken piece by piece."""
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


def test_checksum_that_is_wrong_is_no_end(tmp_path: Path) -> None:
    """The walk goes on behind it, and to a magic that is not known yet."""
    wrong, later = batch(b"a"), batch(b"b")
    wrong[-1] ^= 1
    later[16] = 3
    with LogReader(segment(tmp_path, wrong, later)) as reader:
        assert [reader.checksum(entry)[1] for entry in reader.entries()] == [False, True]


@pytest.mark.parametrize(("cut", "count"), [(1, 1), (61, 1), (17, 1)])
def test_entry_that_is_cut_off_ends_it(tmp_path: Path, cut: int, count: int) -> None:
    """What is not whole is left out."""
    data = bytes(batch(b"a"))
    with LogReader(segment(tmp_path, data, data[:cut])) as reader:
        assert len(list(reader.entries())) == count


def test_length_that_cannot_be_is_a_failure(tmp_path: Path) -> None:
    """Nobody knows where the next entry is."""
    with LogReader(segment(tmp_path, bytes(100))) as reader, pytest.raises(DumpFailed, match="at position 0"):
        list(reader.entries())


def test_memory_does_not_grow_with_the_segment(tmp_path: Path) -> None:
    """O3: 96 MiB in batches of 64 KiB take a few at a time."""
    path = tmp_path / f"{0:020d}.log"
    with path.open("wb") as file:
        for _ in range(1536):
            file.write(sized(65536))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert sum(1 for _ in dump_segment(str(path), SegmentOptions(deep=True), Gaps())) > 3000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 24 << 10
