"""When snapshots of the metadata are written, and which files are deleted then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from broker.startup.node import Node, open_node
from config import load
from controller.metadata_retention import MetadataRetention
from controller.metadata_snapshot import snapshots_in
from metadata.framing import new_record
from metadata.replay import replay_all
from protocol.messages.cluster_metadata import ConfigRecord
from runtime.deferred import Deferred
from storage.fs import LOCAL, FileSystem
from tests.support.disk_doubles.failing_fs import FailingFileSystem


def inline(function: Callable[..., Any], *args: Any) -> Deferred[Any]:
    """A thread pool that makes calls at once."""
    return Deferred.resolved(function(*args))


class Harness:
    """A node in a directory, and a clock that the test moves."""

    def __init__(self, directory: Path, fs: FileSystem = LOCAL, **overrides: str) -> None:
        keys = {"node.id": "1", "log.dirs": str(directory), "listeners": "PLAINTEXT://127.0.0.1:9092"}
        config = load(None, overrides=keys | {key.replace("_", "."): value for key, value in overrides.items()})
        self.now_ms = 1_000_000
        self.directory = directory / "__cluster_metadata-0"
        self.node: Node = open_node(config, self.now_ms, fs=fs)
        self.retention = MetadataRetention(
            self.node.metadata_log,
            self.node.image,
            config,
            inline,  # type: ignore[arg-type]
            lambda: self.now_ms,
        )
        self._count = 0

    def write(self) -> None:
        """Append and sync a record, and check whether a snapshot is due."""
        self.append()
        self.sync()
        self.retention.check()

    def sync(self) -> None:
        """Sync all that is written."""
        self.node.metadata_log.sync(inline, self.now_ms, lambda *_: None)  # type: ignore[arg-type]

    def append(self) -> None:
        """Append a record without a sync."""
        self._count += 1
        record = new_record(
            30, ConfigRecord, resource_type=2, resource_name="t", name="retention.ms", value=str(self._count)
        )
        self.node.metadata_log.append([record], self.now_ms)
        replay_all(self.node.image, [record])

    def snapshots(self) -> list[str]:
        """Return the names of snapshots, without the one of formatting."""
        return sorted(file.name for file in self.directory.glob("*.checkpoint") if not file.name.startswith("0" * 20))

    def segments(self) -> list[str]:
        return sorted(file.name for file in self.directory.glob("*.log"))


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Harness]]:
    made: list[Harness] = []

    def make(**overrides: Any) -> Harness:
        made.append(Harness(tmp_path, **overrides))
        return made[-1]

    yield make
    for harness in made:
        harness.node.close(harness.now_ms)


def test_snapshot_after_a_number_of_bytes(make):
    """metadata.log.max.record.bytes.between.snapshots."""
    harness = make(metadata_log_max_record_bytes_between_snapshots="2000")
    for _ in range(100):
        harness.write()

    size = (harness.directory / "00000000000000000000.log").stat().st_size
    assert size // 2200 <= len(harness.snapshots()) <= size // 2000


def test_no_snapshot_of_unsynced_records(make):
    """The image already has records that were appended during the sync: the snapshot follows the next sync."""
    harness = make(metadata_log_max_record_bytes_between_snapshots="1")
    harness.sync()
    harness.append()

    harness.retention.check()
    assert harness.snapshots() == []

    harness.sync()
    harness.retention.check()
    assert len(harness.snapshots()) == 1


def test_snapshot_after_an_interval(make):
    """metadata.log.max.snapshot.interval.ms, if there are new records; 0 is never."""
    harness = make(metadata_log_max_snapshot_interval_ms="5000")
    harness.write()
    assert harness.snapshots() == []

    harness.now_ms += 5000
    harness.retention.check()
    assert len(harness.snapshots()) == 1

    harness.now_ms += 5000
    harness.retention.check()
    assert len(harness.snapshots()) == 1


def test_interval_of_zero_is_never(make):
    """Then only bytes count."""
    harness = make(metadata_log_max_snapshot_interval_ms="0")
    harness.now_ms += 10**9
    harness.write()

    assert harness.snapshots() == []


def test_old_snapshots_and_segments_are_deleted(make):
    """By age, and whole segments only. The newest snapshot stays, and a restart loads all."""
    overrides = {"internal_metadata_log_segment_bytes": "400"}
    harness = make(metadata_log_max_snapshot_interval_ms="5000", metadata_max_retention_ms="7000", **overrides)
    metadata_log = harness.node.metadata_log
    for _ in range(4):
        harness.now_ms += 5000
        harness.write()
    snapshots, segments = harness.snapshots(), harness.segments()

    assert len(snapshots) == 2
    assert not (harness.directory / "00000000000000000000-0000000000.checkpoint").exists()
    assert segments[0] > "00000000000000000000.log"
    assert metadata_log.partition_log.log_start_offset == int(snapshots[0][:20])
    image = harness.node.image.configs
    harness.node.close(harness.now_ms)
    harness.__init__(harness.directory.parent)  # the next start
    assert harness.node.image.configs == image
    assert harness.node.metadata_log.voters == (1,)


def test_records_that_a_reader_of_this_process_needs_are_kept(make):
    """The broker of a combined node applies nothing while it opens its logs, but the controller goes on."""
    limits = {"metadata_log_max_record_bytes_between_snapshots": "500", "metadata_max_retention_bytes": "1"}
    harness = make(internal_metadata_log_segment_bytes="400", **limits)
    log = harness.node.metadata_log.partition_log
    applied = log.log_end_offset
    harness.retention.first_needed = lambda: applied
    for _ in range(30):
        harness.write()
    assert harness.snapshots()
    assert log.log_start_offset <= applied
    assert len(log.read(applied, 1, log.log_end_offset))
    applied = log.log_end_offset
    for _ in range(30):
        harness.write()
    assert log.log_start_offset == applied


def test_old_snapshots_are_deleted_by_size(make):
    """metadata.max.retention.bytes; the newest snapshot and the active segment are never deleted."""
    harness = make(metadata_log_max_record_bytes_between_snapshots="500", metadata_max_retention_bytes="1")
    for _ in range(30):
        harness.write()

    assert len(harness.snapshots()) == 1


def test_one_snapshot_at_a_time(make):
    """No snapshot begins while another one is being written."""
    harness = make(metadata_log_max_record_bytes_between_snapshots="1")
    waiting: list[Deferred[Any]] = []

    def later(function: Callable[..., Any], *args: Any) -> Deferred[Any]:
        waiting.append(Deferred())
        return waiting[-1]

    harness.retention._offload = later
    harness.write()
    harness.write()

    assert len(waiting) == 1


def test_snapshot_after_a_long_start(make, monkeypatch: pytest.MonkeyPatch):
    """Once: the next start has little to read."""
    monkeypatch.setattr("controller.metadata_retention.LONG_START_BYTES", 5000)
    harness = make()
    for _ in range(100):
        harness.write()
    assert harness.snapshots() == []
    harness.node.close(harness.now_ms)
    again = make()
    again.sync()
    again.retention.check()
    assert len(again.snapshots()) == 1
    again.write()
    assert len(again.snapshots()) == 1
    again.node.close(again.now_ms)
    last = make()
    last.retention.check()
    assert len(last.snapshots()) == 1


def test_stop_writes_a_snapshot_to_shorten_the_next_start(make, monkeypatch: pytest.MonkeyPatch):
    """The snapshot covers the whole log, including the stop's own records; none is written if there is little to
    read.
    """
    monkeypatch.setattr("controller.metadata_retention.LONG_STOP_BYTES", 5000)
    harness = make(metadata_max_retention_bytes="1")
    for _ in range(100):
        harness.write()
    harness.node.close(harness.now_ms)
    [snapshot] = snapshots_in(LOCAL, str(harness.directory))
    end_offset = harness.node.metadata_log.end_offset
    again = make()
    again.node.close(again.now_ms)

    assert snapshot.end_offset == end_offset
    assert harness.node.image.brokers[1].fenced
    assert again.node.metadata_log.bytes_since_snapshot < 5000
    assert again.node.image.configs == harness.node.image.configs
    assert snapshots_in(LOCAL, str(harness.directory)) == [snapshot]


def test_snapshot_of_a_stop_covers_only_synced_records(make, monkeypatch: pytest.MonkeyPatch):
    """The log is synced before the snapshot gets its name."""
    monkeypatch.setattr("controller.metadata_retention.LONG_STOP_BYTES", 1)
    steps: list[str] = []

    class Watched(FileSystem):
        def sync(self, handle: int) -> None:
            steps.append("sync")
            super().sync(handle)

        def rename(self, old: str, new: str) -> None:
            steps.append(Path(new).suffix)
            super().rename(old, new)

    harness = make(fs=Watched())
    harness.write()
    steps.clear()
    harness.node.close(harness.now_ms)

    assert "sync" in steps[: steps.index(".checkpoint")]


def test_disk_failure_during_the_last_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """At each call before the snapshot exists: the stop is not clean, and the next start loads all."""
    monkeypatch.setattr("controller.metadata_retention.LONG_STOP_BYTES", 1)
    for fail_at in count(1):
        directory = tmp_path / str(fail_at)
        directory.mkdir()
        fs = FailingFileSystem(broken=True)
        harness = Harness(directory, fs)
        harness.write()
        fs.fail_at = len(fs.calls) + fail_at
        harness.node.close(harness.now_ms)
        if harness.snapshots():
            break
        assert not (directory / ".kafka_cleanshutdown").exists()
        again = Harness(directory)
        assert again.node.image.configs == harness.node.image.configs
        again.node.close(again.now_ms)
    assert fail_at > 5
