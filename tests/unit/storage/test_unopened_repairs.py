"""Logs that differ from what their clean shutdown left are repaired when they are opened later."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.log_config import LogConfig
from storage.log_manager import LogManager
from tests.support.logs import T0, append, batch, opened, read_all

TOPIC_ID = bytes(range(16))
KEY = "t", 0


class Stage:
    """A log of three batches in one segment each, closed in order and unopened again."""

    def __init__(self, root: Path, config: LogConfig | None = None, value: bytes = b"v", count: int = 3) -> None:
        self.root = root
        self.config = config or LogConfig(segment_bytes=100)
        manager = LogManager([str(root)])
        manager.lock()
        log = manager.create(*KEY, TOPIC_ID, self.config, T0)
        for _ in range(count):
            append(log, batch(value))
        manager.close(T0)
        self.log_dir = root / "t-0"

    def start(self) -> None:
        self.remarks: list[str] = []
        self.manager = LogManager([str(self.root)], on_remark=self.remarks.append)
        self.manager.lock()
        self.manager.load(lambda topic: self.config, T0, may_wait=lambda directory, stored: True)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    stage = Stage(tmp_path)
    stage.start()
    assert set(stage.manager.unopened) == {KEY}
    return stage


def shortened(name: str, size_bytes: int) -> Callable[[Path], object]:
    def shorten(log_dir: Path) -> None:
        path = log_dir / name
        path.write_bytes(path.read_bytes()[:size_bytes])

    return shorten


LAST = f"{2:020d}"
DAMAGES = {
    "an end that is cut off": shortened(f"{LAST}.log", 60),
    "a segment that is empty": shortened(f"{LAST}.log", 0),
    "an index of an odd size": shortened(f"{LAST}.timeindex", 5),
    "an index that is gone": lambda log_dir: (log_dir / f"{LAST}.index").unlink(),
    "a snapshot that is damaged": shortened(f"{3:020d}.snapshot", 3),
    "a snapshot that is gone": lambda log_dir: (log_dir / f"{3:020d}.snapshot").unlink(),
    "epochs that are damaged": shortened("leader-epoch-checkpoint", 3),
    "a segment on its way out": lambda log_dir: shutil.copy(log_dir / f"{LAST}.log", log_dir / f"{LAST}.log.deleted"),
    "all segments that are gone": lambda log_dir: [path.unlink() for path in log_dir.iterdir()],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_shortened_log_continues_at_its_old_end(stage: Stage, damage: Callable[[Path], object]) -> None:
    """No offset is assigned twice, and the loss is reported."""
    damage(stage.log_dir)
    log = opened(stage.manager, *KEY)
    assert append(log, batch()) == 3
    assert [record.offset for record in read_all(log)][-2:] in ([2, 3], [1, 3], [3])
    if read_all(log)[0].offset == 3:
        assert stage.remarks == [f"{stage.log_dir}: has no segment; the log continues at offset 3"]
    stage.manager.close(T0)
    stage.start()
    assert opened(stage.manager, *KEY).log_end_offset == 4
    assert not stage.remarks
    stage.manager.close(T0)


@pytest.mark.parametrize("change", [lambda data: data[: len(data) // 3 * 2], lambda data: data + data[:30]])
def test_log_end_at_another_batch(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    """A batch is missing, or bytes follow the last one, which would make the next one unreachable."""
    stage = Stage(tmp_path, LogConfig())
    stage.start()
    path = stage.log_dir / f"{0:020d}.log"
    path.write_bytes(change(path.read_bytes()))
    log = opened(stage.manager, *KEY)
    assert append(log, batch()) == 3
    assert [record.offset for record in read_all(log)] in ([0, 1, 3], [0, 1, 2, 3])
    stage.manager.close(T0)


def test_log_end_far_from_the_index_is_valid(tmp_path: Path) -> None:
    """The index interval was larger when it was written."""
    stage = Stage(tmp_path, LogConfig(index_interval_bytes=1 << 20), bytes(2000), 100)
    before = {path.name: path.read_bytes() for path in stage.log_dir.iterdir()}
    stage.config = LogConfig()
    stage.start()
    assert set(stage.manager.unopened) == {KEY}
    assert opened(stage.manager, *KEY).log_end_offset == 100
    stage.manager.close(T0)
    assert not stage.remarks
    assert {path.name: path.read_bytes() for path in stage.log_dir.iterdir()} == before


def test_no_offset_is_assigned_twice_after_a_cut_and_crash(tmp_path: Path) -> None:
    """Flushed records were cut off; the next broker did not open the log and was killed."""
    stage = Stage(tmp_path)
    stage.start()
    DAMAGES["an end that is cut off"](stage.log_dir)
    stage.manager.unlock()  # no clean shutdown mark is written
    stage.start()
    log = stage.manager.logs[KEY]
    assert append(log, batch()) == 3
    stage.manager.close(T0)


def test_log_without_segments_continues_at_its_old_end(tmp_path: Path) -> None:
    """It does not start again at offset 0."""
    stage = Stage(tmp_path)
    DAMAGES["all segments that are gone"](stage.log_dir)
    stage.start()
    log = stage.manager.logs[KEY]
    assert (log.log_start_offset, append(log, batch())) == (3, 3)
    assert "has no segment; the log continues at offset 3" in str(log.directory.remarks)
    stage.manager.close(T0)
