"""A tiered log (KIP-405): the local disk may lack its first segments, and local retention waits for copies."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.append.header_validation import AppendOrigin
from storage.checkpoints import LOG_START_OFFSETS, read_offsets
from storage.errors import OffsetOutOfRange
from storage.fs import LOCAL
from storage.log.partition_log import PartitionLog
from storage.log.truncation import empty_log, truncate_log
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from tests.support.logs import T0, append, do, idempotent, killed, marker, opened, read_all, sized, started

DAY = 86_400_000


def config(**values: object) -> LogConfig:
    """Segments of four batches of 100 bytes, of a topic in remote storage; only the given limits apply."""
    tiered = {"remote_storage_system": True, "remote_storage_enable": True}
    return LogConfig(**{"segment_bytes": 400, "retention_ms": -1, **tiered, **values})  # type: ignore[arg-type]


def filled(root: Path, config: LogConfig, count: int = 20) -> tuple[LogManager, PartitionLog]:
    manager = LogManager([str(root)])
    manager.lock()
    log = manager.create("orders", 0, bytes(16), config, T0)
    for number in range(count):
        append(log, sized(100, timestamp=T0 + 1000 * number), now_ms=T0 + 1000 * number)
    return manager, log


def starts(log: PartitionLog) -> tuple[int, int, int]:
    return log.log_start_offset, log.local_start_offset, log.segments[0].base_offset


@pytest.mark.parametrize(("copied", "left"), [(-1, 0), (2, 0), (3, 4), (10, 8), (11, 12), (19, 20)])
def test_local_retention_removes_only_what_is_copied(copied: int, left: int, tmp_path: Path) -> None:
    manager, log = filled(tmp_path, config(local_retention_bytes=0))
    log.copied_offset = copied
    do(manager.retention_tasks(T0))
    assert starts(log)[:2] == (0, left)
    assert log.segments.base_offsets[-1] == 20, "the active segment had expired, so a new one was begun"


@pytest.mark.parametrize(
    ("values", "left"),
    [
        ({}, 0),
        ({"retention_bytes": 800}, 12),
        ({"retention_bytes": 800, "local_retention_bytes": 1200}, 8),
        ({"retention_bytes": -1, "local_retention_bytes": 400}, 16),
        ({"retention_ms": 10_000}, 12),
        ({"retention_ms": 10_000, "local_retention_ms": -2}, 12),
        ({"retention_ms": -1, "local_retention_ms": 5000}, 16),
        ({"local_retention_ms": -1, "local_retention_bytes": -1}, 0),
    ],
)
def test_the_local_limits_are_those_of_the_topic_unless_they_are_set(
    values: dict[str, int], left: int, tmp_path: Path
) -> None:
    manager, log = filled(tmp_path, config(**values))
    log.copied_offset = 19
    do(manager.retention_tasks(T0 + 24_000))
    assert starts(log)[:2] == (0, left)


def test_without_copies_the_topics_own_limits_apply(tmp_path: Path) -> None:
    """remote.log.copy.disable: nothing waits for a copy any more, and the log begins on this disk, as in Kafka."""
    manager, log = filled(tmp_path, config(remote_log_copy_disable=True, retention_bytes=800, local_retention_bytes=0))
    do(manager.retention_tasks(T0))
    assert starts(log) == (12, 12, 12)


def test_a_log_of_a_broker_without_remote_storage_has_one_start(tmp_path: Path) -> None:
    manager, log = filled(tmp_path, config(remote_storage_system=False, retention_bytes=800, local_retention_bytes=0))
    do(manager.retention_tasks(T0))
    assert starts(log) == (12, 12, 12)


def shortened(root: Path) -> tuple[LogManager, PartitionLog]:
    """Return a log that starts at 0, of which the disk has 8 to 19."""
    manager, log = filled(root, config(local_retention_bytes=1200))
    log.copied_offset = 15
    do(manager.retention_tasks(T0))
    assert starts(log) == (0, 8, 8)
    return manager, log


def test_offsets_that_are_only_remote_are_not_read_here(tmp_path: Path) -> None:
    _, log = shortened(tmp_path)
    for offset in (0, 7):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 1000, log.log_end_offset)
    assert [record.offset for record in read_all(log, 8)] == list(range(8, 20))


def test_deleted_records_may_be_remote(tmp_path: Path) -> None:
    manager, log = shortened(tmp_path)
    assert log.delete_records(5) == 5
    assert starts(log) == (5, 8, 8)
    assert log.delete_records(10) == 10
    assert starts(log) == (10, 10, 8)
    log.delete_records(13)
    do(manager.retention_tasks(T0))
    assert starts(log) == (13, 13, 12)


@pytest.mark.parametrize("kind", ["closed", "killed"])
def test_both_starts_and_all_epochs_survive_a_restart(kind: str, tmp_path: Path) -> None:
    manager, log = shortened(tmp_path)
    log.delete_records(2)
    epochs = log.leader_epochs.entries
    if kind == "closed":
        manager.close(T0)
    else:
        do(manager.checkpoint_tasks())
        killed(manager)
    assert read_offsets(LOCAL, f"{tmp_path}/{LOG_START_OFFSETS}", []) == {("orders", 0): 2}
    again = opened(started(tmp_path, config=config()), "orders")
    assert starts(again) == (2, 8, 8)
    assert again.leader_epochs.entries == epochs


def test_start_without_remote_storage_keeps_epochs(tmp_path: Path) -> None:
    """The next start with remote storage finds remote records by them."""
    manager, log = shortened(tmp_path)
    epochs = log.leader_epochs.entries
    assert epochs
    manager.close(T0)
    for is_on in (False, True):
        manager = started(tmp_path, config=config(remote_storage_system=is_on))
        assert opened(manager, "orders").leader_epochs.entries == epochs
        manager.close(T0)


def test_a_start_that_a_crash_brings_back_has_its_epochs(tmp_path: Path) -> None:
    """The start was raised, but its checkpoint was not written: remote records are found by their epochs."""
    manager, log = shortened(tmp_path)
    epochs = log.leader_epochs.entries
    do(manager.checkpoint_tasks())
    log.delete_records(6)
    assert log.leader_epochs.entries[0].start_offset == 6
    killed(manager)
    again = opened(started(tmp_path, config=config()), "orders")
    assert starts(again)[0] == 0
    assert again.leader_epochs.entries == epochs


def test_the_start_of_a_tiered_log_is_always_noted(tmp_path: Path) -> None:
    manager, _ = filled(tmp_path, config())
    manager.close(T0)
    assert read_offsets(LOCAL, f"{tmp_path}/{LOG_START_OFFSETS}", []) == {("orders", 0): 0}


def test_truncation_keeps_both_starts_in_order(tmp_path: Path) -> None:
    _, log = shortened(tmp_path)
    truncate_log(log, 10, T0)
    assert starts(log) == (0, 8, 8)
    assert log.log_end_offset == 10
    empty_log(log, 30, T0)
    assert starts(log) == (30, 30, 30)


def test_producers_are_restored_from_the_local_segments(tmp_path: Path) -> None:
    manager, log = filled(tmp_path, config(local_retention_bytes=0), count=0)
    for number in range(12):
        append(log, idempotent(number))
    log.copied_offset = 7
    do(manager.retention_tasks(T0))
    first = log.local_start_offset
    assert first > 0
    killed(manager)
    again = opened(started(tmp_path, config=config()), "orders")
    assert again.local_start_offset == first
    assert append(again, idempotent(12)) == 12


def test_transactions_that_began_in_remote_storage_survive_recovery(tmp_path: Path) -> None:
    """The snapshot at the first local segment has them. Each recovery needs it to rebuild the transaction index."""
    manager, log = filled(tmp_path, config(local_retention_bytes=0), count=0)
    for number in range(7):
        append(log, idempotent(number, transactional=True))
    append(log, marker(commit=False), origin=AppendOrigin.COORDINATOR)
    border = log.segments[1].base_offset
    log.copied_offset = border - 1
    do(manager.retention_tasks(T0))
    assert starts(log) == (0, border, border)
    assert log.snapshots[0] == border
    for _ in range(2):
        killed(manager)
        manager = started(tmp_path, config=config())
        log = opened(manager, "orders")
        assert log.snapshots[0] == border
        found = log.aborted_transactions(border, 8)
        assert [(each.first_offset, each.last_offset) for each in found] == [(0, 7)]
