"""Logs that turn out, when they are opened late, not to be what their clean stop has left: repaired beside the loop."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.checkpoints import TopicPartition
from storage.errors import LogOffline, StorageError
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from storage.recovery.job import RecoveryJob, recover_partition
from tests.support.logs import T0, append, batch, opened, read_all

TOPIC_ID = bytes(range(16))
KEY = "t", 0


class Repairs:
    """Takes jobs, and does nothing."""

    def __init__(self) -> None:
        self.jobs: list[RecoveryJob] = []
        self.abandoned: list[TopicPartition] = []

    def begin(self, key: TopicPartition, job: RecoveryJob) -> None:
        assert key == KEY
        self.jobs.append(job)

    def abandon(self, key: TopicPartition) -> None:
        self.abandoned.append(key)


class Stage:
    """A log of three batches of which each has a segment of its own, closed in order, waiting again."""

    def __init__(self, root: Path, segment_bytes: int = 100) -> None:
        self.root = root
        self.config = LogConfig(segment_bytes=segment_bytes)
        manager = LogManager([str(root)])
        manager.lock()
        log = manager.create(*KEY, TOPIC_ID, self.config, T0)
        for _ in range(3):
            append(log, batch())
        manager.close(T0)
        self.log_dir = root / "t-0"

    def start(self) -> None:
        self.remarks: list[str] = []
        self.repairs = Repairs()
        self.manager = LogManager([str(self.root)], on_remark=self.remarks.append)
        self.manager.lock()
        self.manager.load(lambda topic: self.config, T0, may_wait=lambda directory, stored: True)
        self.manager.unopened.repairs = self.repairs

    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.log_dir.iterdir()}


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
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_it_is_offline_until_it_is_repaired(stage: Stage, damage: Callable[[Path], object]) -> None:
    """The loop changes nothing; afterwards the log goes on where it ended, and no offset is given twice."""
    damage(stage.log_dir)
    before = stage.files()
    for _ in range(2):
        with pytest.raises(LogOffline):
            stage.manager.open(*KEY)
    assert stage.files() == before
    (job,) = stage.repairs.jobs
    assert len(stage.remarks) == 1

    stage.manager.end_repair(KEY, recover_partition(job))
    log = stage.manager.logs[KEY]
    assert append(log, batch()) == 3
    assert [record.offset for record in read_all(log)][-2:] in ([2, 3], [1, 3])
    stage.manager.close(T0)
    stage.start()
    assert opened(stage.manager, *KEY).log_end_offset == 4
    assert not stage.repairs.jobs
    stage.manager.close(T0)


@pytest.mark.parametrize("change", [lambda data: data[: len(data) // 3 * 2], lambda data: data + data[:30]])
def test_an_end_that_is_elsewhere_between_two_batches(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    """A batch is missing, or something lies behind the last one, over which the next would be out of reach."""
    stage = Stage(tmp_path, segment_bytes=10_000)
    stage.start()
    path = stage.log_dir / f"{0:020d}.log"
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(LogOffline):
        stage.manager.open(*KEY)
    stage.manager.end_repair(KEY, recover_partition(stage.repairs.jobs[0]))
    log = stage.manager.logs[KEY]
    assert append(log, batch()) == 3
    assert [record.offset for record in read_all(log)] in ([0, 1, 3], [0, 1, 2, 3])
    stage.manager.close(T0)


def test_an_index_that_ends_far_too_early_is_made_anew_by_the_repair(tmp_path: Path) -> None:
    """To walk over the rest would take seconds."""
    manager = LogManager([str(tmp_path)])
    manager.lock()
    log = manager.create(*KEY, TOPIC_ID, LogConfig(), T0)
    for _ in range(4):
        append(log, batch(bytes(800_000)))
    manager.close(T0)
    index = tmp_path / f"t-0/{0:020d}.index"
    entries = index.read_bytes()
    index.write_bytes(b"")
    manager = LogManager([str(tmp_path)])
    manager.lock()
    manager.load(lambda topic: LogConfig(), T0, may_wait=lambda directory, stored: True)
    manager.unopened.repairs = repairs = Repairs()
    with pytest.raises(LogOffline):
        manager.open(*KEY)
    manager.end_repair(KEY, recover_partition(repairs.jobs[0]))
    assert index.read_bytes()[: len(entries)] == entries
    assert manager.logs[KEY].log_end_offset == 4
    manager.close(T0)


def test_an_end_far_behind_the_index_is_looked_for_by_a_worker(tmp_path: Path) -> None:
    """The interval was larger when it was written: nothing is wrong with the log, and nothing is said to be."""
    stage = Stage(tmp_path / "small")
    stage.root = tmp_path / "large"
    large = LogConfig(index_interval_bytes=1 << 20)
    manager = LogManager([str(stage.root)])
    manager.lock()
    log = manager.create(*KEY, TOPIC_ID, large, T0)
    for _ in range(100):
        append(log, batch(bytes(2000)))
    manager.close(T0)
    stage.config = LogConfig()
    stage.start()
    assert set(stage.manager.unopened) == {KEY}
    with pytest.raises(LogOffline, match="its end is far behind the last entry of its index"):
        stage.manager.open(*KEY)
    assert stage.manager.refused[KEY].reason.startswith("a worker looks for its end")
    stage.manager.end_repair(KEY, recover_partition(stage.repairs.jobs[0]))
    assert stage.manager.logs[KEY].log_end_offset == 100
    assert "repair" not in str(stage.remarks)
    stage.manager.close(T0)

    stage.start()
    stage.manager.unopened.repairs = None
    assert opened(stage.manager, *KEY).log_end_offset == 100
    stage.manager.close(T0)


def test_what_is_left_in_repair_is_no_clean_stop(stage: Stage) -> None:
    """A process may have been killed at it: the next start looks at it as after a crash."""
    DAMAGES["an end that is cut off"](stage.log_dir)
    with pytest.raises(LogOffline):
        stage.manager.open(*KEY)
    stage.manager.close(T0)
    assert not (stage.root / ".kafka_cleanshutdown").exists()


def test_what_was_repaired_does_not_stand_in_the_way_of_a_clean_stop(stage: Stage) -> None:
    """Nor what will be, or is deleted."""
    DAMAGES["an end that is cut off"](stage.log_dir)
    for end in (
        lambda: stage.manager.unopened.wait_again(KEY),
        lambda: stage.manager.delete(*KEY, "0" * 32, T0),
    ):
        with pytest.raises(LogOffline):
            stage.manager.open(*KEY)
        assert stage.manager.unopened.is_in_repair(stage.manager.directories[0])
        end()
        assert not stage.manager.unopened.is_in_repair(stage.manager.directories[0])
    stage.manager.close(T0)
    assert (stage.root / ".kafka_cleanshutdown").exists()


def test_a_log_without_any_segment_is_refused(stage: Stage) -> None:
    """It ended at offset 3: nobody may begin it anew at 0."""
    for path in stage.log_dir.iterdir():
        path.unlink()
    with pytest.raises(LogOffline, match="has no segment any more, though the log ended at offset 3"):
        stage.manager.open(*KEY)
    assert not stage.repairs.jobs
    assert set(stage.manager.refused) == {KEY}
    stage.manager.close(T0)


@pytest.mark.parametrize(("error", "online"), [(StorageError("strange"), True), (OSError(5, "I/O error"), False)])
def test_a_repair_that_fails(stage: Stage, error: Exception, online: bool) -> None:
    """The log is offline for good, or its directory is."""
    DAMAGES["an end that is cut off"](stage.log_dir)
    with pytest.raises(LogOffline):
        stage.manager.open(*KEY)
    stage.manager.end_repair(KEY, error)
    assert stage.manager.directories[0].is_online is online
    with pytest.raises(LogOffline, match=str(error).replace("[", ".").replace("]", ".")):
        stage.manager.open(*KEY)
    assert len(stage.repairs.jobs) == 1
    stage.manager.close(T0)


def test_one_that_is_deleted_meanwhile_is_left_alone(stage: Stage) -> None:
    """The repair goes by the path, which may be that of another topic soon."""
    DAMAGES["an end that is cut off"](stage.log_dir)
    with pytest.raises(LogOffline):
        stage.manager.open(*KEY)
    stage.manager.delete(*KEY, "0" * 32, T0)
    assert stage.repairs.abandoned == [KEY]
    assert stage.manager.create(*KEY, b"n" * 16, stage.config, T0).log_end_offset == 0
    stage.manager.close(T0)


def test_no_offset_is_given_twice_after_a_cut_and_a_crash(tmp_path: Path) -> None:
    """What was on the disk for sure was cut off, the next life did not look at it, and was killed."""
    stage = Stage(tmp_path)
    stage.start()
    DAMAGES["an end that is cut off"](stage.log_dir)
    stage.manager.unlock()  # and no more: there is no mark of a clean stop
    stage.start()
    log = stage.manager.logs[KEY]
    assert append(log, batch()) == 3
    stage.manager.close(T0)


def test_a_log_that_lost_its_segments_before_a_start_goes_on_where_it_ended(tmp_path: Path) -> None:
    """It does not begin anew at offset 0."""
    stage = Stage(tmp_path)
    for path in stage.log_dir.iterdir():
        path.unlink()
    stage.start()
    log = stage.manager.logs[KEY]
    assert (log.log_start_offset, append(log, batch())) == (3, 3)
    assert "has no segment; it goes on at offset 3" in str(log.directory.remarks)
    stage.manager.close(T0)
