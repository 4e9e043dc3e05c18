"""Logs and log managers in a temporary directory, and batches for them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from protocol.records.builder import BatchBuilder
from protocol.records.control import build_end_transaction_marker
from protocol.records.entries import iter_records
from protocol.records.record import Record
from storage.append.header_validation import AppendOrigin
from storage.fetch_slice import FetchSlice
from storage.fs import LOCAL, FileSystem
from storage.log.directory import LogDirectory
from storage.log.partition_log import PartitionLog
from storage.log.stored_log import StoredLog
from storage.log.tasks import Task
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from storage.recovery.loading import load_log

T0 = 1_700_000_000_000


def open_log(
    root: Path, config: LogConfig | None = None, *, fs: FileSystem = LOCAL, now_ms: int = T0, **left: Any
) -> PartitionLog:
    """Open the log orders-0 in `root`. `left`: fields of the StoredLog of the last shutdown."""
    fs.make_directory(f"{root}/orders-0")
    directory = LogDirectory(str(root), fs, jitter=lambda limit: limit // 2)
    return load_log(directory, StoredLog(f"{root}/orders-0", "orders", 0, config or LogConfig(), now_ms, **left))


def opened(manager: LogManager, topic: str, partition: int = 0) -> PartitionLog:
    """Return an existing log, which is opened now if it was not yet."""
    log = manager.open(topic, partition)
    assert log is not None
    return log


def batch(*values: bytes | None, timestamp: int = T0, key: bytes | None = None, **header: Any) -> bytearray:
    """Return a batch as a client sends it: one record a value, each a millisecond later."""
    builder = BatchBuilder(**header)
    for number, value in enumerate(values or (b"value",)):
        builder.append(timestamp + number, key, value)
    return bytearray(builder.build())


def sized(size_bytes: int, **kwargs: Any) -> bytearray:
    """Return a batch of one record with exactly this size."""
    for length in range(size_bytes - 75, size_bytes - 60):
        if length >= 0 and len(found := batch(bytes(length), **kwargs)) == size_bytes:
            return found
    raise ValueError(f"no batch has {size_bytes} bytes")


def idempotent(sequence: int, count: int = 1, *, producer_id: int = 7, epoch: int = 0, **kwargs: Any) -> bytearray:
    """Return a batch of an idempotent producer."""
    values = [b"%d" % (sequence + number) for number in range(count)]
    return batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **kwargs)


def marker(producer_id: int = 7, epoch: int = 0, *, commit: bool, coordinator_epoch: int = 0) -> bytes:
    return build_end_transaction_marker(
        producer_id, epoch, commit=commit, coordinator_epoch=coordinator_epoch, timestamp_ms=T0
    )


def append(log: PartitionLog, records: bytes | bytearray, now_ms: int = T0, **kwargs: Any) -> int:
    """Append; return the base offset."""
    kwargs.setdefault("leader_epoch", 0)
    return log.append(records, now_ms=now_ms, **kwargs).base_offset


def end(log: PartitionLog, *, commit: bool, leader_epoch: int = 0, **kwargs: Any) -> int:
    """Append a marker."""
    return append(log, marker(commit=commit, **kwargs), origin=AppendOrigin.COORDINATOR, leader_epoch=leader_epoch)


def bytes_of(part: FetchSlice | bytes) -> bytes:
    """Return the bytes of a read, from memory or from the file."""
    return part if isinstance(part, bytes) else part.read()


def read_all(log: PartitionLog, start: int | None = None, end_offset: int | None = None) -> list[Record]:
    """Return all records from `start` on, read in pieces as a consumer does."""
    offset = log.log_start_offset if start is None else start
    end_offset = log.log_end_offset if end_offset is None else end_offset
    found: list[Record] = []
    while offset < end_offset:
        part = log.read(offset, 4096, end_offset)
        if not part:
            break
        records = list(iter_records(part if isinstance(part, bytes) else part.read()))
        assert records, "at least one whole batch"
        found += [record for record in records if offset <= record.offset < end_offset]
        offset = records[-1].offset + 1
    return found


def crash(log: PartitionLog) -> None:
    """End as a killed process does: written data stays, nothing else happens."""
    log.close_files()


def close(log: PartitionLog) -> None:
    """Close this log cleanly."""
    log.recovery_point = log.log_end_offset
    log.close()


TOPIC_ID = bytes(range(16))


def started(*paths: Path, config: LogConfig | None = None, now_ms: int = T0) -> LogManager:
    manager = LogManager([str(path) for path in paths])
    manager.lock()
    manager.load(lambda topic: config or LogConfig(), now_ms)
    return manager


def do(tasks: Iterable[Task]) -> int:
    count = 0
    for task in tasks:
        task.run()
        task.apply()
        count += 1
    return count


def killed(manager: LogManager) -> None:
    for log in manager.logs.values():
        log.close_files()
    manager.unlock()
