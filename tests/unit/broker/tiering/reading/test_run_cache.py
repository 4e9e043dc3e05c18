"""The cache of runs: bounded, least recently used first; runs that are being sent stay readable."""

from __future__ import annotations

from pathlib import Path

from broker.tiering.reading.batches import whole_batches
from broker.tiering.reading.run import RunContent
from broker.tiering.reading.run_cache import RunCache
from storage.fetch_slice import FetchSlice
from storage.fs import LOCAL
from storage.open_files import OpenFiles
from tests.support.logs import batch

ONE, OTHER = b"1" * 16, b"2" * 16


class Stage:
    """A cache of 1000 bytes. `add` writes a run of one batch for each offset."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cache = RunCache(OpenFiles(LOCAL, 2), lambda: 1000, LOCAL.remove)

    def add(
        self, segment_id: bytes, start: int, end: int, *, value: bytes = b"v" * 100, in_memory: bool = False
    ) -> int:
        data = b"".join(self._batch(offset, value) for offset in range(start, end))
        found = whole_batches("key", data, 0)
        assert found.marks is not None
        path = self.root / f"{segment_id[:1].decode()}-{start}"
        if not in_memory:
            path.write_bytes(data)
        self.cache.add(
            RunContent(segment_id, start, end, end, 0, len(data), found.marks, str(path), data if in_memory else None)
        )
        return len(data)

    def _batch(self, offset: int, value: bytes) -> bytes:
        data = batch(value)
        data[:8] = offset.to_bytes(8, "big")
        return bytes(data)

    def files(self) -> list[str]:
        return sorted(path.name for path in self.root.iterdir())


def test_runs_are_found_by_offset(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.add(ONE, 10, 12)
    stage.add(ONE, 12, 13)
    starts = {
        offset: run and run.content.start_offset for offset in range(9, 14) for run in [stage.cache.find(ONE, offset)]
    }
    assert starts == {9: None, 10: 10, 11: 10, 12: 12, 13: None}
    assert stage.cache.find(OTHER, 10) is None


def test_the_least_recently_used_goes_first(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    size = stage.add(ONE, 0, 2)
    assert 2 * size <= 1000 < 3 * size
    stage.add(ONE, 2, 4)
    stage.cache.find(ONE, 0)
    stage.add(OTHER, 0, 2)
    assert stage.files() == ["1-0", "2-0"]
    assert (len(stage.cache), stage.cache.size_bytes) == (2, 2 * size)


def test_a_run_larger_than_the_cache_stays_until_the_next(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.add(ONE, 0, 20)
    assert stage.cache.find(ONE, 19) is not None
    stage.add(ONE, 20, 21)
    assert stage.files() == ["1-20"]


def test_a_run_that_is_sent_stays_readable(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.add(ONE, 0, 2)
    run = stage.cache.find(ONE, 0)
    assert run is not None
    part = run.read(1, 1 << 20, True)
    stage.cache.forget(ONE)
    assert stage.files() == []
    assert isinstance(part, FetchSlice)
    assert part.read()[:8] == (1).to_bytes(8, "big")


def test_a_run_that_is_read_again_replaces_the_former(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.add(ONE, 0, 2)
    stage.add(ONE, 0, 3)
    run = stage.cache.find(ONE, 2)
    assert run is not None
    assert len(stage.cache) == 1


def test_few_runs_are_kept_in_memory(tmp_path: Path) -> None:
    """When the disk is full, the limit of bytes on the disk is no limit for memory."""
    stage = Stage(tmp_path)
    for start in range(12):
        stage.add(ONE, start, start + 1, value=b"", in_memory=True)
    assert len(stage.cache) == 8
    run = stage.cache.find(ONE, 11)
    assert run is not None
    part = run.read(11, 1 << 20, True)
    assert isinstance(part, FetchSlice)
    assert part.read()[:8] == (11).to_bytes(8, "big")
    assert Path(run.path).read_bytes() == part.read()
    assert stage.files() == []


def test_searches_begin_near_the_offset(tmp_path: Path) -> None:
    """Positions are kept each 4 KiB; every offset is found from there."""
    stage = Stage(tmp_path)
    stage.add(ONE, 0, 300)
    run = stage.cache.find(ONE, 0)
    assert run is not None
    positions = [run.locate(offset).base_offset for offset in range(300)]
    assert positions == list(range(300))
