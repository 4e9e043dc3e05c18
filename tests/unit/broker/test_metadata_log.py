"""The metadata log's sync: what is tried again, and what never is."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.deferred import Deferred
from broker.metadata_log import TOPIC, MetadataLog
from storage.errors import LogOffline
from storage.fs import LOCAL
from storage.log.directory import LogDirectory
from storage.log.stored_log import StoredLog
from storage.log_config import LogConfig
from storage.recovery.loading import load_log
from tests.support.failing_fs import FailingFileSystem
from tests.support.logs import T0, append, batch


def offload(function: Callable[[], None]) -> Deferred[None]:
    return Deferred.resolved(function())


@pytest.fixture
def fs() -> FailingFileSystem:
    return FailingFileSystem()


@pytest.fixture
def metadata_log(fs: FailingFileSystem, tmp_path: Path) -> MetadataLog:
    path = tmp_path / f"{TOPIC}-0"
    path.mkdir()
    log = load_log(LogDirectory(str(tmp_path), fs), StoredLog(str(path), TOPIC, 0, LogConfig(), T0))
    append(log, batch(b"a record"))
    return MetadataLog(log)


def fail_the_next(fs: FailingFileSystem, code: int, after: int = 0) -> None:
    fs.code, fs.fail_at = code, len(fs.calls) + 1 + after


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_sync_without_a_descriptor_waits_for_one(
    metadata_log: MetadataLog, fs: FailingFileSystem, code: int, after: int, caplog: pytest.LogCaptureFixture
) -> None:
    """It has not begun: nothing is lost by beginning it again, and who asked is answered then."""
    later: list[Callable[[], None]] = []
    fail_the_next(fs, code, after)
    fs.broken = True
    synced = metadata_log.sync(offload, T0, lambda _, call: later.append(call))  # type: ignore[arg-type]
    later.pop()()
    assert not synced.done
    fs.fail_at = 0
    later.pop()()
    assert synced.result() is None
    assert not later
    assert metadata_log.partition_log.recovery_point == 1
    assert not metadata_log.partition_log.unsynced
    assert caplog.text.count("waits for a file descriptor") == 1


def test_a_sync_that_failed_is_not_tried_again(metadata_log: MetadataLog, fs: FailingFileSystem) -> None:
    """W3, D3: the kernel may have dropped the pages, and would report success."""
    fail_the_next(fs, errno.EIO)
    synced = metadata_log.sync(offload, T0, lambda _, call: pytest.fail("tried again"))  # type: ignore[arg-type]
    with pytest.raises(LogOffline, match="EIO"):
        synced.result()
    assert not metadata_log.partition_log.directory.is_online


def test_a_log_that_was_closed_waits_for_nothing(metadata_log: MetadataLog, fs: FailingFileSystem) -> None:
    later: list[Callable[[], None]] = []
    fail_the_next(fs, errno.EMFILE)
    synced = metadata_log.sync(offload, T0, lambda _, call: later.append(call))  # type: ignore[arg-type]
    metadata_log.partition_log.close_files()
    fail_the_next(fs, errno.EMFILE)
    later.pop()()
    with pytest.raises(LogOffline, match="EMFILE"):
        synced.result()
    assert LOCAL.exists(metadata_log.path)
