"""The checkpoint of high watermarks is written when one has changed, and after doubt."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS, read_offsets
from storage.fs import LOCAL
from storage.log.partition_log import PartitionLog
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from tests.support.logs import T0, TOPIC_ID, append, batch, do, killed, started


class Replicas:
    """A broker with two replicas, whose high watermarks a leader moves."""

    def __init__(self, directory: Path) -> None:
        self.path = str(directory / HIGH_WATERMARKS)
        self.manager: LogManager = started(directory)
        self.logs: list[PartitionLog] = []
        for partition in range(2):
            log = self.manager.create("t", partition, TOPIC_ID, LogConfig(), T0)
            log.begin_replication(0)
            append(log, batch(b"a", b"b"))
            self.logs.append(log)
        [self.directory] = self.manager.directories
        self.checkpoints = self.manager.checkpoints

    def write(self) -> int:
        """Write what has changed; return the number of files written."""
        return do(self.checkpoints.high_watermark_tasks(self.directory))

    def written(self) -> list[int]:
        return list(read_offsets(LOCAL, self.path).values())


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[Replicas]:
    made = Replicas(tmp_path)
    yield made
    killed(made.manager)


def test_file_is_written_when_an_offset_has_changed(replicas: Replicas) -> None:
    assert [replicas.write() for _ in range(3)] == [1, 0, 0]
    assert replicas.written() == [0, 0]
    replicas.logs[1].advance_high_watermark(2)
    assert [replicas.write() for _ in range(2)] == [1, 0]
    assert replicas.written() == [0, 2]


def test_deleted_replica_is_a_change(replicas: Replicas) -> None:
    replicas.write()
    replicas.manager.delete("t", 1, "0" * 32, T0)
    assert [replicas.write() for _ in range(2)] == [1, 0]
    assert replicas.written() == [0]


@pytest.mark.parametrize("name", [RECOVERY_POINTS, HIGH_WATERMARKS])
def test_outdated_task_is_followed_by_another(replicas: Replicas, name: str) -> None:
    """A truncation replaces a file at once, and tasks that were created before write nothing then."""
    replicas.logs[0].advance_high_watermark(1)
    outdated = list(replicas.checkpoints.high_watermark_tasks(replicas.directory))
    replicas.checkpoints.replace(replicas.directory, name)
    do(outdated)
    assert replicas.write() == 1
    assert replicas.written() == [1, 0]


def test_other_tasks_are_followed_by_another(replicas: Replicas) -> None:
    """They may have written offsets that no longer hold."""
    replicas.write()
    do(replicas.manager.checkpoint_tasks())
    assert [replicas.write() for _ in range(2)] == [1, 0]


def test_failed_task_is_repeated(replicas: Replicas) -> None:
    [failed] = replicas.checkpoints.high_watermark_tasks(replicas.directory)
    failed.error = OSError(errno.EMFILE, "Too many open files")
    failed.apply()
    assert replicas.directory.is_online
    assert [replicas.write() for _ in range(2)] == [1, 0]
