"""Several processes with one log directory: each has its partitions, and all share the checkpoint files."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.checkpoints import CLEANER_OFFSETS, LOG_START_OFFSETS, RECOVERY_POINTS, read_offsets
from storage.fs import LOCAL
from storage.log.tasks import OffsetsTask
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from tests.support.logs import T0, TOPIC_ID, append, batch, do, killed, started


def even(topic: str, partition: int) -> bool:
    return partition % 2 == 0


def odd(topic: str, partition: int) -> bool:
    return partition % 2 == 1


def opened(path: Path, owns: Callable[[str, int], bool], had_clean_shutdown: bool | None = None) -> LogManager:
    """Open the directory as one of the processes. With `had_clean_shutdown` it is not the first."""
    manager = LogManager([str(path)], owns=owns)
    manager.directories[0].had_clean_shutdown = had_clean_shutdown
    manager.load(lambda topic: LogConfig(), T0)
    return manager


def offsets(path: Path, name: str) -> dict[tuple[str, int], int]:
    return read_offsets(LOCAL, str(path / name))


def test_each_process_opens_its_own_logs(tmp_path: Path) -> None:
    """Copies in progress are opened too. The first process handles the clean shutdown mark and everything else."""
    manager = started(tmp_path)
    for partition in range(4):
        append(manager.create("t", partition, TOPIC_ID, LogConfig(), T0), batch())
    manager.close(T0)
    for name in ("t-4.{}-future", "t-5.{}-future", "t-6.{}-delete"):
        (tmp_path / name.format("0" * 32)).mkdir()

    first = opened(tmp_path, even)
    second = opened(tmp_path, odd, first.directories[0].had_clean_shutdown)

    assert first.directories[0].had_clean_shutdown
    assert sorted(first.logs) == [("t", 0), ("t", 2)]
    assert sorted(second.logs) == [("t", 1), ("t", 3)]
    assert [each.partition for each in first.futures] == [4]
    assert [each.partition for each in second.futures] == [5]
    assert len(list(first.removal_tasks(T0 + 1))) == 1
    assert len(list(second.removal_tasks(T0 + 1))) == 0
    killed(first)
    killed(second)


def test_checkpoint_files_have_the_last_entries_of_each_process(tmp_path: Path) -> None:
    """Entries of others are kept, and its own are those of its logs: deleted ones are removed."""
    first, second = opened(tmp_path, even), opened(tmp_path, odd, False)
    for partition in range(4):
        manager = second if partition % 2 else first
        for _ in range(partition + 1):
            append(manager.create("t", partition, TOPIC_ID, LogConfig(), T0), batch())
    for manager in (first, second):
        do(task for log in manager.logs.values() if (task := manager.flush_task(log, T0)) is not None)
        do(manager.checkpoint_tasks())
    assert offsets(tmp_path, RECOVERY_POINTS) == {("t", 0): 1, ("t", 1): 2, ("t", 2): 3, ("t", 3): 4}

    second.logs["t", 3].delete_records(1)
    first.delete("t", 2, "0" * 32, T0)
    do(first.checkpoint_tasks())
    do(second.checkpoint_tasks())
    do([OffsetsTask(each.directories[0], CLEANER_OFFSETS, {("t", n): n}) for n, each in enumerate((first, second))])

    assert offsets(tmp_path, RECOVERY_POINTS) == {("t", 0): 1, ("t", 1): 2, ("t", 3): 4}
    assert offsets(tmp_path, LOG_START_OFFSETS) == {("t", 3): 1}
    assert offsets(tmp_path, CLEANER_OFFSETS) == {("t", 0): 0, ("t", 1): 1}
    killed(first)
    killed(second)


def test_process_does_not_wait_for_the_disk_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one process flushes its entries, another creates a partition; the first one includes the change."""
    first, second = opened(tmp_path, even), opened(tmp_path, odd, False)
    for manager, partition in ((first, 0), (second, 1)):
        append(manager.create("t", partition, TOPIC_ID, LogConfig(), T0), batch())
        do(task for log in manager.logs.values() if (task := manager.flush_task(log, T0)) is not None)
        do(manager.checkpoint_tasks())
    first.delete("t", 0, "0" * 32, T0)
    created: list[bool] = []
    fsync, flock = os.fsync, fcntl.flock

    def slow_fsync(handle: int) -> None:
        if not created:
            created.append(True)
            first.create("t", 0, bytes(reversed(TOPIC_ID)), LogConfig(), T0)
        fsync(handle)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", slow_fsync)
        patched.setattr(fcntl, "flock", lambda handle, how: flock(handle, how | fcntl.LOCK_NB))
        do(second.checkpoint_tasks(names=[RECOVERY_POINTS]))

    assert created
    assert offsets(tmp_path, RECOVERY_POINTS) == {("t", 1): 1}
    killed(first)
    killed(second)


def test_recreated_partition_keeps_entries_of_others(tmp_path: Path) -> None:
    """A deleted log is removed from the files before a log of that name is created (rule D4)."""
    first, second = opened(tmp_path, even), opened(tmp_path, odd, False)
    for manager, partition in ((first, 0), (second, 1)):
        log = manager.create("t", partition, TOPIC_ID, LogConfig(), T0)
        append(log, batch())
        do(task for task in (manager.flush_task(log, T0),) if task is not None)
        do(manager.checkpoint_tasks())

    first.delete("t", 0, "0" * 32, T0)
    first.create("t", 0, bytes(reversed(TOPIC_ID)), LogConfig(), T0)

    assert offsets(tmp_path, RECOVERY_POINTS) == {("t", 1): 1}
    killed(first)
    killed(second)


def test_last_process_marks_the_directory(tmp_path: Path) -> None:
    """The others only write their entries."""
    first, second = opened(tmp_path, even), opened(tmp_path, odd, False)
    append(first.create("t", 0, TOPIC_ID, LogConfig(), T0), batch())
    append(second.create("t", 1, TOPIC_ID, LogConfig(), T0), batch())

    second.close(T0, mark_clean=False)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    first.close(T0)

    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert offsets(tmp_path, RECOVERY_POINTS) == {("t", 0): 1, ("t", 1): 1}


def test_crashed_process_recovers_its_own_logs(tmp_path: Path) -> None:
    """A torn batch after the recovery point is cut off; the logs of the other, running process are not touched."""
    first, second = opened(tmp_path, even), opened(tmp_path, odd, True)
    append(first.create("t", 0, TOPIC_ID, LogConfig(), T0), batch())
    append(second.create("t", 1, TOPIC_ID, LogConfig(), T0), batch())
    killed(second)
    with open(tmp_path / "t-1/00000000000000000000.log", "ab") as file:
        file.write(b"torn")

    again = opened(tmp_path, odd, False)

    assert again.logs["t", 1].log_end_offset == 1
    assert [cut.path for cut in again.cuts] == [str(tmp_path / "t-1/00000000000000000000.log")]
    assert first.logs["t", 0].log_end_offset == 1
    killed(first)
    killed(again)
