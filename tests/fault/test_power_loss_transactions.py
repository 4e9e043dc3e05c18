"""Transaction indexes after a power loss: nobody would notice a missing one, and readers would get aborted records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from storage.log_config import LogConfig
from storage.log_manager import LogManager
from tests.support.disk_doubles.power_cut import Disk, Journal, JournalingFileSystem
from tests.support.logs import T0, append, batch, end, idempotent

CONFIG = LogConfig(segment_bytes=400, retention_ms=-1)


class _Worst(Random):
    """Lose every file name that was not forced to the disk."""

    def choice(self, seq: Sequence[Any]) -> Any:
        return seq[0]

    def random(self) -> float:
        return 1.0


def _started(log_dir: Path, journal: Journal) -> LogManager:
    manager = LogManager([str(log_dir)], fs=JournalingFileSystem(journal))
    manager.lock()
    manager.load(lambda topic: CONFIG, T0)
    return manager


def test_an_index_made_after_a_flush_survives_a_clean_stop(tmp_path: Path) -> None:
    """P2, R6: its name is forced to the disk, although the name of its segment was forced before."""
    journal = Journal()
    manager = _started(tmp_path / "live" / "logs", journal)
    log = manager.create("t", 0, bytes(16), CONFIG, T0)
    append(log, idempotent(0, transactional=True))
    for task in manager.flush_tasks(T0):
        task.run()
        task.apply()
    end(log, commit=False)
    expected = log.aborted_transactions(0, 2)
    assert len(expected) == 1
    manager.close(T0)
    disk = Disk(tmp_path / "live")
    for call in journal.calls:
        disk.follow(call)
    disk.cut(tmp_path / "after", _Worst())
    again = _started(tmp_path / "after" / "logs", Journal())
    found = again.logs["t", 0]
    assert (found.recovery_point, found.aborted_transactions(0, 2)) == (2, expected)
    again.close(T0)


def test_index_goes_once_its_records_are_gone_for_good(tmp_path: Path) -> None:
    """If a power loss undoes retention, aborted records must not come back without their index."""
    journal = Journal()
    manager = _started(tmp_path / "live" / "logs", journal)
    log = manager.create("t", 0, bytes(16), CONFIG, T0)
    append(log, idempotent(0, transactional=True))
    end(log, commit=False)
    for number in range(9):
        append(log, batch(bytes(100), timestamp=T0 + number))
    log.config = replace(CONFIG, retention_bytes=400)
    begin = len(journal)
    for task in manager.retention_tasks(T0):
        task.run()
        task.apply()
    calls = [(name, Path(str(path)).name) for name, path, *_ in journal.calls[begin:]]
    first = f"{0:020d}"
    gone = calls.index(("rename", f"{first}.log"))
    index_gone = calls.index(("rename", f"{first}.txnindex"))
    assert ("sync_path", "t-0") in calls[gone:index_gone]
    manager.close(T0)
