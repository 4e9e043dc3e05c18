"""The cache of indexes of remote segments: names, look-ups, limits, and what survives a start."""

from __future__ import annotations

from pathlib import Path
from struct import pack
from typing import Any

import pytest

from broker.tiering.reading.index_cache import FOLDER, IndexCache
from protocol.id_text import id_text
from remote.errors import Absent, Damaged
from remote.segment_files import IndexKind
from storage.fs import LOCAL
from tests.unit.tiered.copies import segment
from tiered.metadata_records import TopicIdPartition

PARTITION = TopicIdPartition(bytes(16), "t", 0)
OFFSETS = pack(">iiii", 4, 300, 9, 800)
TIMES = pack(">qiqi", 1000, 4, 5000, 9)
ABORTED = pack(">hqqqq", 0, 7, 100, 103, 104)


class Indexes:
    """The part of a layout that has indexes. `reads` are those that were made."""

    def __init__(self) -> None:
        self.content: dict[IndexKind, bytes | None] = {
            IndexKind.OFFSET: OFFSETS,
            IndexKind.TIMESTAMP: TIMES,
            IndexKind.TRANSACTION: ABORTED,
        }
        self.reads: list[str] = []

    def read_index(self, partition: Any, of: Any, kind: IndexKind) -> bytes | None:
        self.reads.append(f"{of.start_offset} {kind.name}")
        return self.content[kind]


class Stage:
    def __init__(self, root: Path, capacity: int = 1 << 20, unused_ms: int = -1) -> None:
        self.layout = Indexes()
        self.now_ms = 0
        self.folder = root / FOLDER
        layout: Any = self.layout
        self.cache = IndexCache(LOCAL, str(root), layout, capacity, unused_ms, lambda: self.now_ms)
        self.cache.load()

    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


COPY = segment(1, 100, 199, size_bytes=1000)


@pytest.mark.parametrize(("offset", "position"), [(100, 0), (103, 0), (104, 300), (108, 300), (109, 800), (199, 800)])
def test_positions(tmp_path: Path, offset: int, position: int) -> None:
    assert Stage(tmp_path).cache.position(PARTITION, COPY, offset) == position


def test_a_position_behind_the_segment_is_not_used(tmp_path: Path) -> None:
    assert Stage(tmp_path).cache.position(PARTITION, COPY._replace(size_bytes=700), 150) == 0


@pytest.mark.parametrize(("time", "offset"), [(0, 100), (1000, 100), (1001, 104), (5000, 104), (5001, 109)])
def test_offsets_before_which_all_is_earlier(tmp_path: Path, time: int, offset: int) -> None:
    """The record with exactly the time of an entry is before its offset."""
    assert Stage(tmp_path).cache.offset_of_time(PARTITION, COPY, time) == offset


def test_files_have_kafkas_names_and_are_read_once(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    for _ in range(2):
        stage.cache.position(PARTITION, COPY, 100)
        stage.cache.offset_of_time(PARTITION, COPY, 0)
        assert len(stage.cache.aborted(PARTITION, COPY)) == 1
    prefix = f"100_{id_text(COPY.id)}"
    assert stage.names() == [f"{prefix}.index", f"{prefix}.timeindex", f"{prefix}.txnindex"]
    assert len(stage.layout.reads) == 3


def test_a_segment_without_aborts_is_not_asked(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    assert stage.cache.aborted(PARTITION, COPY._replace(has_no_aborted=True)) == []
    stage.layout.content[IndexKind.TRANSACTION] = None
    assert stage.cache.aborted(PARTITION, COPY) == []
    assert stage.cache.aborted(PARTITION, COPY) == []
    assert len(stage.layout.reads) == 1


def test_files_stay_for_the_next_start(tmp_path: Path) -> None:
    Stage(tmp_path).cache.position(PARTITION, COPY, 100)
    (tmp_path / FOLDER / "100_x.index.deleted").write_bytes(b"")
    stage = Stage(tmp_path)
    assert stage.cache.position(PARTITION, COPY, 104) == 300
    assert stage.layout.reads == []
    assert [name for name in stage.names() if name.endswith("deleted")] == []
    assert stage.cache.size_bytes == len(OFFSETS)


@pytest.mark.parametrize("damage", [b"", b"123", OFFSETS + OFFSETS])
def test_a_file_that_has_changed_is_read_again(tmp_path: Path, damage: bytes) -> None:
    stage = Stage(tmp_path)
    stage.cache.position(PARTITION, COPY, 100)
    [name] = stage.names()
    (stage.folder / name).write_bytes(damage)
    assert stage.cache.position(PARTITION, COPY, 104) == 300


def test_the_least_recently_used_goes_first(tmp_path: Path) -> None:
    stage = Stage(tmp_path, capacity=2 * len(OFFSETS))
    first, second, third = (segment(number, 100 * number, 100 * number + 99, size_bytes=1000) for number in (1, 2, 3))
    stage.cache.position(PARTITION, first, 100)
    stage.cache.position(PARTITION, second, 200)
    stage.cache.position(PARTITION, first, 100)
    stage.cache.position(PARTITION, third, 300)
    assert [name.partition("_")[0] for name in stage.names()] == ["100", "300"]
    stage.cache.limit(1)
    stage.cache.position(PARTITION, second, 200)
    assert [name.partition("_")[0] for name in stage.names()] == ["200"], "the newest one always stays"


def test_unused_files_are_removed(tmp_path: Path) -> None:
    stage = Stage(tmp_path, unused_ms=1000)
    stage.cache.position(PARTITION, COPY, 100)
    stage.now_ms = 1001
    stage.cache.position(PARTITION, segment(2, 200, 299), 200)
    assert [name.partition("_")[0] for name in stage.names()] == ["200"]


def test_a_deleted_segment_is_forgotten(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.cache.position(PARTITION, COPY, 100)
    stage.cache.forget(COPY)
    assert (stage.names(), stage.cache.size_bytes) == ([], 0)


def test_a_part_of_an_entry_is_damage(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.layout.content[IndexKind.OFFSET] = OFFSETS[:-1]
    with pytest.raises(Damaged, match="not a whole number of entries"):
        stage.cache.position(PARTITION, COPY, 100)


def test_an_index_that_is_missing_is_an_error(tmp_path: Path) -> None:
    """Not an empty one: then the whole segment would be searched."""
    stage = Stage(tmp_path)

    def absent(*_: Any) -> None:
        raise Absent("key", "no such object")

    stage.layout.read_index = absent  # type: ignore[method-assign, assignment]
    with pytest.raises(Absent):
        stage.cache.position(PARTITION, COPY, 100)


def test_a_disk_that_fails_only_costs_reads(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.folder.rmdir()
    assert [stage.cache.position(PARTITION, COPY, 104) for _ in range(2)] == [300, 300]
    assert len(stage.layout.reads) == 2
