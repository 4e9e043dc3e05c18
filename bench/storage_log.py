"""Measure the log without protocol and sockets: `python -m bench.storage_log [DIRECTORY]`.

Times of appends and reads of one partition, and of a start with a thousand partitions, in microseconds or milliseconds
of one core; the best of many short rounds. They include system calls unless a line says otherwise.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from timeit import repeat
from typing import Any

from protocol.records.buffer import Buffer
from protocol.records.builder import BatchBuilder
from storage.fs import LOCAL, FileSystem
from storage.log.directory import LogDirectory
from storage.log.partition_log import PartitionLog
from storage.log.stored_log import StoredLog
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from storage.recovery.loading import load_log

ROUNDS = 40
CALLS = 500
T0 = 1_700_000_000_000
PARTITIONS = 1000


class NoWrites(FileSystem):
    """Accepts records without writing them: what remains is our own code's time."""

    @staticmethod
    def pwrite(handle: int, data: Buffer, position: int) -> int:  # type: ignore[override]
        return len(data)


def measure(name: str, call: Callable[[], object], calls: int = CALLS) -> None:
    call()
    best = min(repeat(call, number=calls, repeat=ROUNDS, timer=time.process_time)) / calls
    print(f"{name:58} {best * 1e6:7.2f} us")


def batch(size: int, count: int = 1, **header: Any) -> memoryview:
    builder = BatchBuilder(**header)
    for _ in range(count):
        builder.append(T0, None, bytes(size))
    return memoryview(bytearray(builder.build()))


def new_log(root: Path, name: str, config: LogConfig | None = None, fs: FileSystem = LOCAL) -> PartitionLog:
    directory = LogDirectory(str(root), fs)
    LOCAL.make_directory(f"{root}/{name}-0")
    return load_log(directory, StoredLog(f"{root}/{name}-0", name, 0, config or LogConfig(), T0))


def appender(log: PartitionLog, records: memoryview) -> Callable[[], object]:
    def call() -> object:
        records[0:8] = bytes(8)  # a client's base offset
        return log.append(records, leader_epoch=0, now_ms=T0)

    return call


def idempotent_appender(log: PartitionLog) -> Callable[[], object]:
    batches = [
        batch(100, producer_id=7, producer_epoch=0, base_sequence=number) for number in range(ROUNDS * CALLS + 1)
    ]
    waiting = iter(batches)
    return lambda: log.append(next(waiting), leader_epoch=0, now_ms=T0)


def appends(root: Path) -> None:
    small, medium, large = batch(100), batch(100, 100), batch(10_000, 100)
    measure("append 170 bytes, system call left out", appender(new_log(root, "none", fs=NoWrites()), small))
    measure(
        "append 170 bytes, idempotent, system call left out", idempotent_appender(new_log(root, "i", fs=NoWrites()))
    )
    measure("append 170 bytes", appender(new_log(root, "small"), small))
    measure("append 11 kB (an index entry each)", appender(new_log(root, "medium"), medium))
    measure("append 1 MB", appender(new_log(root, "large", LogConfig(segment_bytes=64 << 20)), large), calls=2)


def reads(root: Path) -> None:
    log = new_log(root, "read", LogConfig(segment_bytes=16 << 20))
    records = batch(100, 10)
    call = appender(log, records)
    for _ in range(100_000):
        call()
    end = log.log_end_offset
    measure("read at the tail", lambda: log.read(end - 10, 1 << 20, end))
    measure("read at the end: nothing", lambda: log.read(end, 1 << 20, end))
    offsets = iter([(number * 7919) % end for number in range(ROUNDS * CALLS + 1)])
    measure("read somewhere, by the index", lambda: log.read(next(offsets), 12_000, end))
    following = iter(range(0, 10 * (ROUNDS * CALLS + 1), 10))
    measure("read one batch after the other, far from the tail", lambda: log.read(next(following) % (end // 2), 1, end))
    times = iter([T0 for _ in range(ROUNDS * CALLS + 1)])
    measure("offset for a timestamp", lambda: log.offset_for_timestamp(next(times)))


def starts(root: Path) -> None:
    manager = LogManager([str(root)])
    manager.lock()
    started = time.perf_counter()
    for partition in range(PARTITIONS):
        manager.create("many", partition, bytes(16), LogConfig(), T0)
    print(f"{f'make {PARTITIONS} partitions':58} {(time.perf_counter() - started) * 1e3:7.0f} ms")
    records = batch(100, producer_id=7, producer_epoch=0, base_sequence=0)
    for log in manager.logs.values():
        appender(log, records)()
    for name, clean in (("clean stop", True), ("crash", False)):
        started = time.perf_counter()
        if clean:
            manager.close(T0)
            print(
                f"{f'{name}, {PARTITIONS} partitions with records':58} {(time.perf_counter() - started) * 1e3:7.0f} ms"
            )
        else:
            for log in manager.logs.values():
                log.close_files()
            manager.unlock()
        manager = LogManager([str(root)])
        manager.lock()
        started = time.perf_counter()
        manager.load(lambda topic: LogConfig(), T0)
        print(f"{f'start after a {name}':58} {(time.perf_counter() - started) * 1e3:7.0f} ms")
    manager.close(T0)


def main() -> None:
    parent = sys.argv[1] if len(sys.argv) > 1 else None
    root = Path(tempfile.mkdtemp(dir=parent))
    try:
        appends(root / "appends")
        reads(root / "reads")
        starts(root / "starts")
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
