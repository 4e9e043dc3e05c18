"""Logs that are opened at the first request: their state until then, and what opens them."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.checkpoints import read_offsets
from storage.errors import LogOffline, StorageError
from storage.fs import FileSystem
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from tests.support.logs import T0, append, batch, opened

TOPIC_ID = bytes(range(16))
KEYS = [("t", number) for number in range(3)]


class Watched(FileSystem):
    """Records the listed paths, and can fail."""

    def __init__(self) -> None:
        self.listed: list[str] = []
        self.failure: Exception | None = None

    def fail(self):  # type: ignore[no-untyped-def]
        raise OSError(errno.EMFILE, "too many open files")

    def list(self, path: str):  # type: ignore[no-untyped-def]
        self.listed.append(path)
        if self.failure is not None:
            raise self.failure
        return super().list(path)


def started(
    *roots: Path,
    lazily: bool = True,
    fs: FileSystem | None = None,
    config: LogConfig | None = None,
    on_remark: Callable[[str], None] = print,
) -> LogManager:
    manager = LogManager([str(root) for root in roots], fs=fs or FileSystem(), on_remark=on_remark)
    manager.lock()
    manager.load(lambda topic: config or LogConfig(), T0, may_wait=lambda directory, stored: lazily)
    return manager


def killed(manager: LogManager) -> None:
    for log in manager.logs.values():
        log.close_files()
    manager.unlock()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Three partitions whose record count equals their number, and one more; the first record of partition 2 is
    deleted.
    """
    manager = started(tmp_path)
    for topic, number in KEYS:
        log = manager.create(topic, number, TOPIC_ID, LogConfig(), T0)
        for _ in range(number + 1):
            append(log, batch())
    manager.logs["t", 2].delete_records(1)
    manager.close(T0)
    return tmp_path


def test_clean_start_reads_no_partition(root: Path) -> None:
    """Only requested logs are opened; the directory counts all of them."""
    fs = Watched()
    manager = started(root, fs=fs)
    assert fs.listed == [str(root)], "but for the names of files"
    assert (manager.logs, set(manager.unopened)) == ({}, set(KEYS))

    log = opened(manager, "t", 2)
    assert fs.listed == [str(root), f"{root}/t-2"]
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point, log.topic_id) == (1, 3, 3, TOPIC_ID)
    assert manager.open("t", 2) is log
    assert (set(manager.logs), set(manager.unopened)) == ({KEYS[2]}, set(KEYS[:2]))
    assert manager.directories[0].log_count == 3
    assert manager.open("none", 0) is None
    manager.close(T0)


def test_unopened_log_keeps_its_checkpoints(root: Path) -> None:
    """Its checkpoints do not change, while the broker runs and afterwards: a shutdown has nothing to write."""
    names = "recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"
    before = [read_offsets(FileSystem(), f"{root}/{name}") for name in names]
    assert before == [{KEYS[0]: 1, KEYS[1]: 2, KEYS[2]: 3}, {KEYS[0]: 1, KEYS[1]: 2, KEYS[2]: 3}, {KEYS[2]: 1}]
    manager = started(root)
    append(opened(manager, "t", 1), batch())
    for task in manager.checkpoint_tasks():
        task.run()
        task.apply()
    assert read_offsets(FileSystem(), f"{root}/{names[0]}") == before[0]
    files = {path: path.stat().st_mtime_ns for path in root.glob("t-[02]/*")}
    manager.close(T0)

    assert read_offsets(FileSystem(), f"{root}/{names[0]}") == before[0] | {KEYS[1]: 3}
    assert read_offsets(FileSystem(), f"{root}/{names[2]}") == before[2]
    assert files == {path: path.stat().st_mtime_ns for path in root.glob("t-[02]/*")}
    manager = started(root)
    assert opened(manager, "t", 2).log_start_offset == 1
    manager.close(T0)


def test_all_logs_are_opened_after_a_crash(root: Path) -> None:
    """Logs that the killed broker had not opened are recovered from the state of their last shutdown."""
    manager = started(root)
    append(opened(manager, "t", 1), batch())
    for task in manager.checkpoint_tasks():
        task.run()
        task.apply()
    killed(manager)
    manager = started(root)
    assert not manager.unopened
    assert {
        key: (log.log_start_offset, log.recovery_point, log.log_end_offset) for key, log in manager.logs.items()
    } == {KEYS[0]: (0, 1, 1), KEYS[1]: (0, 2, 3), KEYS[2]: (1, 3, 3)}
    manager.close(T0)


def test_logs_needed_at_once_are_opened(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Logs of a cleaner, logs without a checkpointed end, partitions that exist twice, and all if not requested."""
    manager = started(root, config=LogConfig(cleanup_policy=frozenset({"compact"})))
    assert (len(manager.logs), manager.unopened) == (3, {})
    manager.close(T0)
    (root / "recovery-point-offset-checkpoint").write_text("0\n1\nt 1 2\n")
    manager = started(root)
    assert (set(manager.logs), set(manager.unopened)) == ({KEYS[0], KEYS[2]}, {KEYS[1]})
    manager.close(T0)
    other = tmp_path_factory.mktemp("other")
    manager = started(other)
    manager.create("t", 1, TOPIC_ID, LogConfig(), T0)
    manager.close(T0)
    manager = started(root, other)
    assert (set(manager.logs), set(manager.unopened)) == ({KEYS[1]}, {KEYS[0], KEYS[2]})
    manager.close(T0)
    manager = started(root, lazily=False)
    assert len(manager.logs) == 3
    manager.close(T0)


def test_log_of_many_files_is_opened(root: Path) -> None:
    """It takes too long to open while clients wait."""
    for number in range(100):
        (root / f"t-1/{number:020d}.log.0.corrupt").touch()
    manager = started(root)
    assert (set(manager.logs), set(manager.unopened)) == ({KEYS[1]}, {KEYS[0], KEYS[2]})
    manager.close(T0)


@pytest.mark.parametrize("name", [f"{2:020d}.snapshot", "leader-epoch-checkpoint", f"{0:020d}.txnindex"])
def test_log_with_large_small_files_is_opened(root: Path, name: str) -> None:
    """The producers of a large topic, for example, would block the event loop."""
    with (root / "t-1" / name).open("ab") as file:
        file.write(bytes(70_000))
    manager = started(root)
    assert (set(manager.logs), set(manager.unopened)) == ({KEYS[1]}, {KEYS[0], KEYS[2]})
    manager.close(T0)


def test_log_with_a_sparse_index_is_opened(root: Path) -> None:
    """Its end is far from the last index entry."""
    manager = started(root, config=LogConfig(index_interval_bytes=1 << 20))
    assert (len(manager.logs), manager.unopened) == (3, {})
    manager.close(T0)


def test_disk_error_takes_the_directory_offline(root: Path) -> None:
    """Afterwards none of its logs can be opened."""
    fs = Watched()
    manager = started(root, fs=fs)
    fs.failure = OSError(errno.EIO, "input/output error")
    with pytest.raises(LogOffline, match="input/output error"):
        manager.open("t", 0)
    fs.failure = None
    assert not manager.directories[0].is_online
    with pytest.raises(LogOffline, match="input/output error"):
        manager.open("t", 1)
    killed(manager)


def test_log_opens_when_descriptors_are_free_again(root: Path) -> None:
    """The log stays unopened."""
    fs = Watched()
    manager = started(root, fs=fs)
    fs.failure = OSError(errno.EMFILE, "too many open files")
    with pytest.raises(LogOffline, match="too many open files"):
        manager.open("t", 0)
    fs.failure = None
    assert opened(manager, "t", 0).log_end_offset == 1
    manager.close(T0)


@pytest.mark.parametrize("error", [StorageError("strange"), ValueError("strange")])
def test_log_that_cannot_be_opened_is_offline_alone(root: Path, error: Exception) -> None:
    """It is reported once and not tried again; its checkpoints are kept, and it may be deleted."""
    fs = Watched()
    remarks: list[str] = []
    manager = started(root, fs=fs, on_remark=remarks.append)
    fs.failure = error
    raised = []
    for _ in range(3):
        with pytest.raises(LogOffline, match=f"{type(error).__name__}: strange") as caught:
            manager.open("t", 0)
        raised.append(caught.value)
        fs.failure = None
    assert remarks == [f"A log is offline: {root}/t-0 is offline: {type(error).__name__}: strange"]
    assert len(set(map(id, raised))) == 3, "one that is raised again has a longer traceback each time"
    assert set(manager.unopened.refused) == {KEYS[0]}
    manager.delete("t", 0, "0" * 32, T0)
    assert (root / f"t-0.{'0' * 32}-delete").exists()
    assert (set(manager.unopened), manager.unopened.refused) == (set(KEYS[1:]), {})
    manager.close(T0)
    assert set(read_offsets(FileSystem(), f"{root}/recovery-point-offset-checkpoint")) == set(KEYS[1:])


def test_unopened_log_is_deleted_and_configured_normally(root: Path) -> None:
    """Without being opened. Retention uses the latest configuration."""
    fs = Watched()
    manager = started(root, fs=fs)
    manager.delete("t", 0, "0" * 32, T0)
    manager.configure("t", 1, LogConfig(retention_ms=1))
    manager.configure("none", 1, LogConfig(retention_ms=1))
    assert fs.listed == [str(root)]
    assert manager.directories[0].log_count == 2

    assert opened(manager, "t", 1).log_end_offset == 2
    assert len(list(manager.retention_tasks(T0 + 1000))) == 1
    assert opened(manager, "t", 1).log_start_offset == 2
    manager.configure("t", 1, LogConfig(retention_ms=7))
    assert manager.logs["t", 1].config.retention_ms == 7
    assert opened(manager, "t", 2).log_start_offset == 1
    assert manager.create("t", 0, b"n" * 16, LogConfig(), T0).log_end_offset == 0
    manager.close(T0)


def test_create_returns_an_unopened_log(root: Path) -> None:
    """A new partition is created elsewhere only if no log has its name."""
    manager = started(root)
    assert manager.create("t", 2, TOPIC_ID, LogConfig(), T0, is_new=False).log_end_offset == 3
    manager.close(T0)


def test_log_of_a_cleaner_is_opened(root: Path) -> None:
    """The log is opened even if it is no longer compacted."""
    (root / "cleaner-offset-checkpoint").write_text("0\n1\nt 1 1\n")
    manager = started(root)
    assert (set(manager.logs), set(manager.unopened)) == ({KEYS[1]}, {KEYS[0], KEYS[2]})
    manager.close(T0)


@pytest.mark.parametrize("name", [".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint"])
def test_log_without_an_index_is_repaired_at_the_start(root: Path, name: str) -> None:
    """The repair may take a minute, for which no client should wait."""
    for path in (root / "t-1").glob(f"*{name}"):
        path.unlink()
    manager = started(root)
    assert (set(manager.logs), set(manager.unopened)) == ({KEYS[1]}, {KEYS[0], KEYS[2]})
    assert manager.logs["t", 1].log_end_offset == 2
    manager.close(T0)


@pytest.mark.parametrize("ending", [".deleted", ".cleaned", ".swap"])
def test_interrupted_operation_is_finished_at_the_start(root: Path, ending: str) -> None:
    """Removing a segment of a gigabyte takes seconds."""
    segment = root / "t-1/00000000000000000000.log"
    (root / f"t-1/{segment.name}{ending}").write_bytes(segment.read_bytes())
    manager = started(root)
    assert (set(manager.logs), set(manager.unopened)) == ({KEYS[1]}, {KEYS[0], KEYS[2]})
    assert not (root / f"t-1/{segment.name}{ending}").exists()
    manager.close(T0)


@pytest.mark.parametrize("gone", ["t-1", ""])
def test_missing_directory_is_not_created_again(
    root: Path, gone: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A log that starts again at offset 0 would assign offsets twice. It goes offline alone, unless the disk was
    unmounted: then the lock file is missing too.
    """
    manager = started(root)
    (root / gone).rename(tmp_path_factory.mktemp("elsewhere") / "t-1")
    root.mkdir(exist_ok=True)
    with pytest.raises(LogOffline, match="No such file"):
        manager.open("t", 1)
    assert not (root / "t-1").exists()
    assert manager.directories[0].is_online is bool(gone)
    assert set(manager.unopened.refused) == ({KEYS[1]} if gone else set())
    if gone:
        assert opened(manager, "t", 0).log_end_offset == 1
    killed(manager)


def test_unopened_log_stays_closed_after_shutdown(root: Path) -> None:
    """Its directory is marked as clean, so nothing may be written to it."""
    manager = started(root)
    manager.close(T0)
    with pytest.raises(LogOffline, match="the broker is shutting down"):
        manager.open("t", 1)


def test_log_without_descriptor_at_the_start_waits(root: Path) -> None:
    """It is opened when a descriptor is free."""
    fs = Watched()
    manager = started(root, fs=fs)
    killed(manager)
    manager = LogManager([str(root)], fs=fs)
    manager.lock()
    listed, fs.list = fs.list, lambda path: listed(path) if path == str(root) else fs.fail()  # type: ignore[method-assign]
    fs.failure = None
    manager.load(lambda topic: LogConfig(), T0, may_wait=lambda directory, stored: stored.partition != 2)
    assert set(manager.unopened) == set(KEYS[:2])
    fs.list = listed  # type: ignore[method-assign]
    assert opened(manager, "t", 1).log_end_offset == 2
    manager.close(T0)


def test_high_watermarks_of_cleanly_closed_logs_are_kept(root: Path) -> None:
    """For a log that was not closed and waits for a descriptor, the end is unknown."""
    (root / ".kafka_cleanshutdown").unlink()
    fs = Watched()
    manager = LogManager([str(root)], fs=fs)
    manager.lock()
    listed, fs.list = fs.list, lambda path: listed(path) if not path.endswith("t-1") else fs.fail()  # type: ignore[method-assign]
    manager.load(lambda topic: LogConfig(), T0, may_wait=lambda directory, stored: True)
    assert set(manager.unopened) == {KEYS[1]}
    for task in manager.checkpoint_tasks():
        task.run()
        task.apply()
    assert read_offsets(FileSystem(), f"{root}/replication-offset-checkpoint") == {KEYS[0]: 1, KEYS[2]: 3}
    assert set(read_offsets(FileSystem(), f"{root}/recovery-point-offset-checkpoint")) == set(KEYS)
    killed(manager)


def test_unchecked_log_prevents_the_clean_mark(root: Path) -> None:
    """Otherwise the next start would trust unchecked records."""
    (root / ".kafka_cleanshutdown").unlink()
    fs = Watched()
    listed, fs.list = fs.list, lambda path: listed(path) if not path.endswith("t-1") else fs.fail()  # type: ignore[method-assign]
    for _ in range(2):
        manager = started(root, fs=fs)
        assert set(manager.unopened) == {KEYS[1]}
        manager.close(T0)
        assert not (root / ".kafka_cleanshutdown").exists()
    fs.list = listed  # type: ignore[method-assign]
    manager = started(root, fs=fs)
    manager.close(T0)
    assert (root / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("unreadable", [0, 1])
def test_neither_log_is_used_while_one_is_unreadable(
    root: Path, tmp_path_factory: pytest.TempPathFactory, unreadable: int
) -> None:
    """No descriptor was free, and the unreadable one may have the records."""
    other = tmp_path_factory.mktemp("other")
    manager = started(other)
    manager.create("t", 1, TOPIC_ID, LogConfig(), T0)
    manager.close(T0)
    fs = Watched()
    path = f"{(root, other)[unreadable]}/t-1"
    listed, fs.list = fs.list, lambda asked: fs.fail() if asked == path else listed(asked)  # type: ignore[method-assign]
    manager = LogManager([str(root), str(other)], fs=fs)
    manager.lock()
    with pytest.raises(LogOffline, match="too many open files"):
        manager.load(lambda topic: LogConfig(), T0, may_wait=lambda directory, stored: True)
    killed(manager)
    manager = started(root, other)
    assert manager.logs["t", 1].log_end_offset == 2
    manager.close(T0)


def test_log_with_unreadable_topic_id_is_not_created_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No descriptor was free, and the log may exist."""
    manager = started(root)
    manager.unopened.take(KEYS[2])
    with monkeypatch.context() as patched:
        patched.setattr(FileSystem, "read_file", lambda fs, path, *most_bytes: Watched().fail())
        with pytest.raises(LogOffline, match="too many open files"):
            manager.create("t", 2, TOPIC_ID, LogConfig(), T0)
    assert manager.directories[0].is_online
    manager.close(T0)


def test_listing_without_descriptors_skips_no_log(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that is not known to be in order is opened."""
    with monkeypatch.context() as patched:
        patched.setattr(Watched, "names", lambda fs, path: fs.fail())
        manager = started(root, fs=Watched())
    assert (set(manager.logs), manager.unopened) == (set(KEYS), {})
    manager.close(T0)
