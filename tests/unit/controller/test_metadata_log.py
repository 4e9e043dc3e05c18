"""The sync of the metadata log: when it is retried, and when not."""

from __future__ import annotations

import errno
import gc
from collections.abc import Callable
from pathlib import Path

import pytest

from controller.metadata_log import TOPIC, MetadataLog, MetadataLogDamaged
from metadata.framing import MetadataRecord, encode_record
from protocol.messages.cluster_metadata import NoOpRecord
from protocol.records.batch import iter_batches
from runtime.deferred import Deferred
from storage.errors import LogOffline
from storage.fs import LOCAL
from storage.log.directory import LogDirectory
from storage.log.partition_log import PartitionLog
from storage.log.stored_log import StoredLog
from storage.log_config import LogConfig
from storage.recovery.loading import load_log
from tests.support.disk_doubles.failing_fs import FailingFileSystem
from tests.support.logs import T0, append, batch, crash, open_log


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
    """It has not begun, so it may be retried without a loss, and its callers wait."""
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


def test_a_sync_leaves_no_reference_cycle(metadata_log: MetadataLog) -> None:
    """The garbage collector runs rarely: each change of topics would leave memory until then."""
    gc.collect()
    gc.disable()
    try:
        metadata_log.sync(offload, T0, lambda _, call: pytest.fail("tried again"))  # type: ignore[arg-type]
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_a_failed_sync_is_not_retried(metadata_log: MetadataLog, fs: FailingFileSystem) -> None:
    """W3, D3: the kernel may have dropped the pages, and would report success."""
    fail_the_next(fs, errno.EIO)
    synced = metadata_log.sync(offload, T0, lambda _, call: pytest.fail("tried again"))  # type: ignore[arg-type]
    with pytest.raises(LogOffline, match="EIO"):
        synced.result()
    assert not metadata_log.partition_log.directory.is_online


def test_a_closed_log_has_no_waiting_sync(metadata_log: MetadataLog, fs: FailingFileSystem) -> None:
    later: list[Callable[[], None]] = []
    fail_the_next(fs, errno.EMFILE)
    synced = metadata_log.sync(offload, T0, lambda _, call: later.append(call))  # type: ignore[arg-type]
    metadata_log.partition_log.close_files()
    fail_the_next(fs, errno.EMFILE)
    later.pop()()
    with pytest.raises(LogOffline, match="EMFILE"):
        synced.result()
    assert LOCAL.exists(metadata_log.path)


def test_offsets_that_go_backwards_are_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last batch of a read says that an earlier offset is next, whose read leads to the same batch again."""
    record = encode_record(MetadataRecord(NoOpRecord, 0, NoOpRecord()))
    log = open_log(tmp_path)
    for count in (8, 8, 1, 8):
        append(log, batch(*[record] * count))
    crash(log)
    file = tmp_path / "orders-0" / f"{0:020}.log"
    data = bytearray(file.read_bytes())
    third = [position for position, _ in iter_batches(data)][2]
    data[third : third + 8] = bytes(8)  # its offset was 16; no checksum covers it
    file.write_bytes(data)
    metadata_log = MetadataLog(open_log(tmp_path, clean=True))
    monkeypatch.setattr("controller.metadata_log.READ_BYTES", third // 2 + 100)  # a large batch and a small one
    reads = iter([PartitionLog.read] * 100)  # and then StopIteration: no endless loop
    monkeypatch.setattr(PartitionLog, "read", lambda *args: next(reads)(*args))
    with pytest.raises(MetadataLogDamaged, match="a batch is missing"):
        metadata_log.load()
