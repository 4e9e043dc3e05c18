"""Reads of runs in threads: ranges, large batches, damage, full disks, and two that want one range."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from broker.tiering.reading import downloads
from broker.tiering.reading.downloads import CACHE, InProgress, RunReader, Wanted
from broker.tiering.reading.index_cache import IndexCache
from broker.tiering.reading.run import RunContent
from remote.errors import Damaged
from remote.segment_files import IndexKind
from storage.directory_names import DirectoryKind, parse_name
from storage.fs import LOCAL
from tests.support.logs import batch
from tests.unit.tiered.copies import segment
from tiered.metadata_records import TopicIdPartition

PARTITION = TopicIdPartition(bytes(16), "t", 0)
SIZES = [100, 3000, 100, 100, 2000, 50, 50]


@pytest.fixture(autouse=True)
def small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "RUN_BYTES", 600)


class Stage:
    """A segment whose batches have one record each, at offsets from 100 on, of the sizes above."""

    def __init__(self, root: Path) -> None:
        self.data = b""
        self.positions = []
        for number, size in enumerate(SIZES):
            made = batch(b"v" * size)
            made[:8] = (100 + number).to_bytes(8, "big")
            self.positions.append(len(self.data))
            self.data += made
        self.copy = segment(1, 100, 100 + len(SIZES) - 1, size_bytes=len(self.data))
        self.reads: list[tuple[int, int]] = []
        self.asked, self.may_go_on = threading.Event(), threading.Event()
        self.may_go_on.set()
        layout: Any = self
        indexes = IndexCache(LOCAL, str(root), layout, 1 << 20, -1, lambda: 0)
        indexes.load()
        self.reader = RunReader(LOCAL, str(root), layout, indexes)
        self.reader.clear()

    def read(self, partition: Any, of: Any, start: int, size_bytes: int) -> bytes:
        self.reads.append((start, size_bytes))
        self.asked.set()
        assert self.may_go_on.wait(10)
        return self.data[start : start + size_bytes]

    def read_index(self, partition: Any, of: Any, kind: IndexKind) -> bytes:
        return b""

    def get(self, offset: int, position: int | None = None) -> RunContent:
        content = self.reader.read(Wanted(PARTITION, self.copy, offset, position))
        assert isinstance(content, RunContent)
        return content


def test_a_run_ends_with_a_whole_batch(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    content = stage.get(100)
    assert (content.start_offset, content.end_offset, content.end_position) == (100, 101, stage.positions[1])
    assert Path(content.path).read_bytes() == stage.data[: stage.positions[1]]


def test_a_batch_that_is_larger_than_a_run_is_read_whole(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    content = stage.get(101, stage.positions[1])
    assert (content.start_offset, content.end_offset, content.end_position) == (101, 102, stage.positions[2])
    assert stage.reads == [(stage.positions[1], 600), (stage.positions[1], content.size_bytes)]


def test_reads_go_on_to_the_offset(tmp_path: Path) -> None:
    """An index entry may be far before it."""
    stage = Stage(tmp_path)
    content = stage.get(103)
    assert content.start_offset <= 103 < content.end_offset
    assert content.position == stage.positions[2]


def test_all_runs_are_the_segment(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    offset, position, data = 100, 0, b""
    while offset <= stage.copy.end_offset:
        content = stage.get(offset, position)
        assert content.start_offset == offset
        data += Path(content.path).read_bytes()
        offset, position = content.end_offset, content.end_position
    assert data == stage.data


def test_the_last_run_has_the_offsets_to_the_end_of_the_segment(tmp_path: Path) -> None:
    """Compaction, before a topic was tiered, may have removed the last records."""
    stage = Stage(tmp_path)
    stage.copy = stage.copy._replace(end_offset=150)
    content = stage.get(106, stage.positions[6])
    assert (content.records_end_offset, content.end_offset) == (107, 151)


@pytest.mark.parametrize("at", [0, 8, 16, 17, 70])
def test_damage_is_found(tmp_path: Path, at: int) -> None:
    """In length, magic, checksum or records; it is read twice. The offset itself is not in the checksum."""
    stage = Stage(tmp_path)
    stage.data = stage.data[:at] + bytes([stage.data[at] ^ 0x55]) + stage.data[at + 1 :]
    if at:
        with pytest.raises(Damaged):
            stage.get(100)
        assert len(stage.reads) == 2


def test_a_segment_that_is_cut_is_damaged(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.copy = stage.copy._replace(size_bytes=len(stage.data) - 10)
    with pytest.raises(Damaged, match=r"cut off|ends behind"):
        stage.get(106, stage.positions[6])


def test_a_file_that_cannot_be_written_is_kept_in_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(tmp_path)
    path = folder(tmp_path)
    path.rmdir()
    path.touch()
    for _ in range(3):
        content = stage.get(100)
        assert content.data == stage.data[: stage.positions[1]]
    assert caplog.text.count("are cached in memory") == 1


def test_a_removed_folder_is_made_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(tmp_path)
    path = folder(tmp_path)
    path.rmdir()
    content = stage.get(100)
    assert content.data is None
    assert Path(content.path).parent == path
    assert Path(content.path).read_bytes() == stage.data[: stage.positions[1]]
    assert "cannot be written" not in caplog.text


def test_two_threads_read_a_range_once(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.may_go_on.clear()
    found: list[RunContent] = []
    first = threading.Thread(target=lambda: found.append(stage.get(100)))
    first.start()
    assert stage.asked.wait(10)
    other = stage.reader.read(Wanted(PARTITION, stage.copy, 101))
    assert isinstance(other, InProgress)
    assert other.key == (stage.copy.id, 100)
    stage.may_go_on.set()
    first.join()
    assert len(found) == 1
    assert stage.get(101).start_offset == 101


def test_files_of_an_earlier_start_are_removed(tmp_path: Path) -> None:
    """Their folders are removed as those of deleted partitions: Apache Kafka does not start where others are."""
    Stage(tmp_path)
    earlier = folder(tmp_path)
    assert parse_name(earlier.name)[0] is DirectoryKind.DELETED
    (earlier / "0_x-0-0.run").write_bytes(b"old")
    Stage(tmp_path)
    assert len(list(tmp_path.glob(f"{CACHE}*"))) == 2
    assert not list(tmp_path.glob(f"{CACHE}*/*"))


def folder(log_dir: Path) -> Path:
    """Return the folder of the only reader."""
    [found] = log_dir.glob(f"{CACHE}*")
    return found
