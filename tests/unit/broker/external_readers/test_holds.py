"""Records that retention keeps for slow readers, and its log lines over time."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from broker.replicas.partition import Partition
from protocol.records.builder import BatchBuilder
from storage.checkpoints import PARTITION_METADATA
from storage.log_config import LogConfig
from tests.support.data_broker import DataBroker

HOUR = 3_600_000
PARTITION = ("t", 0)


class Archive:
    """A reader, at an offset that the test moves."""

    def __init__(self, offset: int | None = 0, since_ms: int | None = None) -> None:
        self.is_complete = True
        self.offset = offset
        self.since_ms = since_ms

    def positions(self) -> Mapping[tuple[str, int], int]:
        return {PARTITION: self.offset} if self.offset is not None else {}

    def name_of(self, partition: tuple[str, int]) -> str:
        return "the archive"

    def readers_from_beginning(self, partition: tuple[str, int]) -> Sequence[tuple[str, int]]:
        return [] if self.since_ms is None else [("the archive", self.since_ms)]

    def stop(self) -> None:
        pass


class Stage:
    """A topic with ten hourly segments and ten hours of retention, a reader, and retention every five minutes."""

    def __init__(self, directory: Path, caplog: pytest.LogCaptureFixture, **config: int) -> None:
        self.broker = DataBroker(directory)
        self.reader = Archive()
        self.broker.background.holds.add(self.reader)
        values = {"segment_bytes": 400, "retention_ms": 10 * HOUR, **config}
        self.partition: Partition = self.broker.topic(config=LogConfig(**values))  # type: ignore[arg-type]
        self.caplog = caplog
        for _ in range(10):
            builder = BatchBuilder()
            builder.append(self.broker.clock.now_ms(), b"k", b"v" * 280)
            self.partition.append(builder.build(), self.broker.clock.now_ms())
            self.broker.clock.advance(HOUR)
        self.size = self.partition.log.size_bytes // 10

    def warnings_during(self, milliseconds: int) -> list[str]:
        """Advance the clock; return the warnings logged meanwhile."""
        self.caplog.clear()
        for _ in range(milliseconds // 300_000):
            self.broker.clock.advance(300_000)
            self.broker.background.retain()
            self.broker.settle()
        return [record.getMessage() for record in self.caplog.records if record.levelno >= logging.WARNING]

    @property
    def start(self) -> int:
        return self.partition.log_start_offset

    @property
    def held_bytes(self) -> int:
        return self.broker.background.holds.held_bytes().get(PARTITION, 0)


def test_warnings_before_and_after_unread_records_go(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each warning is logged once, and again after the reader has caught up."""
    stage = Stage(tmp_path, caplog)
    stage.reader.offset = 5
    assert stage.warnings_during(3 * HOUR) == []
    lines = stage.warnings_during(2 * HOUR)
    assert lines == ["Retention of t-0 will soon remove unread records: the archive has read it up to offset 5"]
    assert stage.start == 5

    lines = stage.warnings_during(HOUR)
    assert stage.start == 6
    assert lines == [
        "Retention of t-0 has removed unread records: the archive has read it up to offset 5; the log begins at 6"
    ]
    assert stage.warnings_during(HOUR) == []
    stage.reader.offset = 10
    assert stage.warnings_during(HOUR) == []
    stage.reader.offset = 8
    assert len(stage.warnings_during(300_000)) == 1


def test_records_are_held_up_to_a_size(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Warnings report how full it is. Beyond the limit, the oldest segments are deleted."""
    stage = Stage(tmp_path, caplog, retention_hold_max_bytes=5 * 400)
    stage.reader.offset = 2
    lines = stage.warnings_during(3 * HOUR)
    assert (stage.start, stage.held_bytes) == (2, stage.size)
    assert [line.split(" of t-0 ")[1] for line in lines] == [
        "will soon remove unread records: the archive has read it up to offset 2",
        f"is on hold: the archive has read it up to offset 2; {stage.size} of at most 2000 bytes are held",
    ]
    (nearly_full,) = stage.warnings_during(4 * HOUR)
    assert (stage.start, stage.held_bytes) == (2, 5 * stage.size)
    assert nearly_full.endswith("of at most 2000 bytes are held; beyond that the oldest are removed")

    (passed,) = stage.warnings_during(2 * HOUR)
    assert (stage.start, stage.held_bytes) == (4, 5 * stage.size)
    assert "the archive has read it up to offset 2; the log begins at" in passed

    stage.reader.offset = 10
    stage.warnings_during(HOUR)
    assert (stage.start, stage.held_bytes) == (10, 0)


def test_warning_before_the_size_limit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The margin is a tenth of retention.bytes."""
    stage = Stage(tmp_path, caplog, retention_ms=-1)
    stage.partition.log.config = LogConfig(segment_bytes=400, retention_ms=-1, retention_bytes=stage.size * 10)
    (lines,) = stage.warnings_during(HOUR)

    assert "will soon remove" in lines
    assert stage.start == 0


def test_all_is_held_while_readers_are_unknown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Up to retention.hold.max.bytes; nothing is held if that is 0. The warning names no reader."""
    stage = Stage(tmp_path, caplog, retention_hold_max_bytes=2 * 400)
    stage.reader.is_complete, stage.reader.offset = False, None
    lines = stage.warnings_during(12 * HOUR)
    assert (stage.start, stage.held_bytes) == (8, 2 * stage.size)
    assert all("its readers are unknown" in line for line in lines)

    stage.reader.is_complete = True
    stage.warnings_during(HOUR)
    assert (stage.start, stage.held_bytes) == (10, 0)


def test_slowest_reader_counts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Some readers do not read the topic."""
    stage = Stage(tmp_path, caplog, retention_hold_max_bytes=100_000)
    for offset in (7, 3, None):
        stage.broker.background.holds.add(Archive(offset))
    stage.reader.offset = 9
    stage.warnings_during(12 * HOUR)

    assert stage.start == 3


def test_new_partition_is_held_for_an_absent_reader(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The reader has read other partitions, so it will read this one from its start."""
    stage = Stage(tmp_path, caplog, retention_hold_max_bytes=100_000)
    stage.broker.background.holds.add(Archive(None, since_ms=0))
    stage.reader.offset = 10
    lines = stage.warnings_during(12 * HOUR)
    assert (stage.start, stage.held_bytes) == (0, 10 * stage.size)
    assert "the archive has read it up to offset 0; " in lines[-1]


def test_old_partition_is_not_held_for_an_assigned_reader(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The partition is older than the reader, which would have read it if it was subscribed to the topic."""
    stage = Stage(tmp_path, caplog, retention_hold_max_bytes=100_000)
    made = Path(stage.partition.log.path) / PARTITION_METADATA
    made.touch()
    os.utime(made, (1_000, 1_000))
    stage.broker.background.holds.add(Archive(None, since_ms=1_000_001))
    stage.reader.offset = 4
    stage.warnings_during(12 * HOUR)
    assert stage.start == 4


def test_deleted_topic_is_forgotten(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The size of its held records is no longer reported."""
    stage = Stage(tmp_path, caplog, retention_hold_max_bytes=100_000)
    stage.warnings_during(12 * HOUR)
    assert stage.held_bytes == 10 * stage.size
    stage.broker.logs.delete(*PARTITION, "0" * 32, stage.broker.clock.now_ms())

    assert stage.held_bytes == 0
    stage.warnings_during(300_000)
    assert not stage.broker.background.holds._states
