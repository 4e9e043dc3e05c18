"""Deleted and stray logs: renamed, removed after the delay, never used again."""

from pathlib import Path

import pytest

from protocol.records.entries import iter_records
from storage.checkpoints import read_offsets
from storage.errors import LogOffline
from storage.fs import LOCAL
from storage.log.stored_log import StoredLog
from storage.log.tasks import FlushTask
from storage.log_config import LogConfig
from storage.recovery.loading import load_log
from tests.support.logs import T0, TOPIC_ID, append, batch, do, killed, read_all, started


def test_deleted_partition_is_renamed_then_removed(tmp_path: Path) -> None:
    """S14.8: also after a restart; the same partition may be created again at once."""
    manager = started(tmp_path)
    log = manager.create("t", 0, TOPIC_ID, LogConfig(file_delete_delay_ms=1000), T0)
    append(log, batch())
    part = log.read(0, 100, 1)
    manager.delete("t", 0, "0" * 32, T0)
    renamed = tmp_path / f"t-0.{'0' * 32}-delete"
    assert renamed.is_dir()
    assert not isinstance(part, bytes)
    assert len(part.read()) == len(part)
    with pytest.raises(LogOffline):
        append(log, batch())
    assert manager.create("t", 0, TOPIC_ID, LogConfig(), T0).log_end_offset == 0
    assert do(manager.removal_tasks(T0 + 999)) == 0
    manager.close(T0)
    manager = started(tmp_path)
    assert list(manager.logs) == [("t", 0)]
    assert do(manager.removal_tasks(T0)) == 1
    assert not renamed.exists()
    manager.close(T0)


def test_stray_partition_is_set_aside(tmp_path: Path) -> None:
    """Its topic is gone, and an operator decides about its records."""
    manager = started(tmp_path)
    append(manager.create("t", 0, TOPIC_ID, LogConfig(), T0), batch())
    manager.set_aside("t", 0, "0" * 32)
    assert (tmp_path / f"t-0.{'0' * 32}-stray").is_dir()
    manager.close(T0)
    manager = started(tmp_path)
    assert manager.logs == {}
    assert manager.ignored == [f"{tmp_path}/t-0.{'0' * 32}-stray"]
    manager.close(T0)


def test_log_outside_the_manager_is_closed_too(tmp_path: Path) -> None:
    """Like the metadata log, which the controller opens: complete, in no checkpoint file, and not found by the next
    start.
    """
    stored = StoredLog(f"{tmp_path}/__cluster_metadata-0", "__cluster_metadata", 0, LogConfig(), T0)
    manager = started(tmp_path)
    LOCAL.make_directory(stored.path)
    log = load_log(manager.directories[0], stored)
    append(log, batch(b"first"))
    manager.close(T0, others=[log])
    assert (tmp_path / "__cluster_metadata-0" / f"{0:020d}.index").stat().st_size == 0
    assert read_offsets(LOCAL, str(tmp_path / "recovery-point-offset-checkpoint")) == {}
    manager = started(tmp_path)
    assert manager.logs == {}
    assert [record.value for record in read_all(load_log(manager.directories[0], stored))] == [b"first"]
    killed(manager)


def test_new_log_inherits_nothing_from_a_deleted_one(tmp_path: Path) -> None:
    """A recovery point or log start offset of the old log in a checkpoint file would truncate the new one."""
    manager = started(tmp_path)
    log = manager.create("t", 0, TOPIC_ID, LogConfig(), T0)
    for _ in range(20):
        append(log, batch())
    log.delete_records(15)
    do([FlushTask(log, T0, with_active=True), *manager.checkpoint_tasks()])
    assert read_offsets(LOCAL, str(tmp_path / "log-start-offset-checkpoint")) == {("t", 0): 15}
    manager.delete("t", 0, "f" * 32, T0)
    log = manager.create("t", 0, bytes(16), LogConfig(), T0)
    assert {f"{tmp_path}/recovery-point-offset-checkpoint", f"{tmp_path}/log-start-offset-checkpoint"} <= log.unsynced
    append(log, batch(b"new"))
    killed(manager)
    manager = started(tmp_path)
    assert [record.value for record in read_all(manager.logs["t", 0])] == [b"new"]
    assert manager.logs["t", 0].recovery_point == 0
    killed(manager)


def test_deleted_directory_is_removed_with_everything(tmp_path: Path) -> None:
    """S14.8: also foreign folders; a file that is created meanwhile takes no directory offline."""
    manager = started(tmp_path)
    log = manager.create("t", 0, TOPIC_ID, LogConfig(file_delete_delay_ms=0), T0)
    folder = Path(log.path) / "of somebody else" / "deep"
    folder.mkdir(parents=True)
    (folder / "file").write_text("x")
    (Path(log.path) / "link").symlink_to(tmp_path)
    manager.delete("t", 0, "f" * 32, T0)
    do(manager.removal_tasks(T0))
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock"]
    assert manager.directories[0].is_online
    killed(manager)


def test_flush_and_retention_of_a_deleted_log(tmp_path: Path) -> None:
    """Their tasks find no files, which is no fault of the disk."""
    config = LogConfig(segment_bytes=100, retention_bytes=0, file_delete_delay_ms=0)
    manager = started(tmp_path, config=config)
    log = manager.create("t", 0, TOPIC_ID, config, T0)
    for _ in range(5):
        append(log, batch())
    part = log.read(0, 1 << 20, 5)
    tasks = [FlushTask(log, T0, with_active=True), *manager.retention_tasks(T0)]
    manager.delete("t", 0, "f" * 32, T0)
    do(manager.removal_tasks(T0))
    do(tasks)
    do(manager.removal_tasks(T0))
    assert manager.directories[0].is_online
    assert not isinstance(part, bytes)
    assert next(iter_records(part.read())).offset == 0
    assert list(tmp_path.glob("t-*")) == []
    killed(manager)
