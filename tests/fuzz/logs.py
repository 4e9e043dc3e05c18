"""A partition directory with arbitrary files, as a crash, a bad disk or a foreign program may leave it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from protocol.records.batch import iter_batches
from protocol.records.errors import RecordsError
from storage.errors import StorageError
from storage.log.partition_log import PartitionLog
from storage.log_config import LogConfig
from tests.fuzz.records import MAX_SIZE, read_all, with_right_checksums
from tests.support.logs import T0, append, batch, bytes_of, open_log

CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=100, segment_index_bytes=512, file_delete_delay_ms=0)
_FIRST, _SECOND = f"{0:020}", f"{5:020}"
#: The last file gets the rest of the input.
FILES = (
    f"{_FIRST}.index",
    f"{_FIRST}.timeindex",
    f"{_FIRST}.txnindex",
    f"{_SECOND}.index",
    f"{_SECOND}.timeindex",
    f"{_SECOND}.snapshot",
    "leader-epoch-checkpoint",
    "partition.metadata",
    f"{_SECOND}.log",
    f"{_FIRST}.log",
)
_CLEAN, _AS_IT_IS = 1, 2


def pack(flags: int, files: dict[str, bytes]) -> bytes:
    """Return the input for these files."""
    parts = [bytes([flags])]
    for name in FILES[:-1]:
        data = files.get(name, b"")
        parts.append(len(data).to_bytes(2, "big") + data)
    return b"".join((*parts, files.get(FILES[-1], b"")))


def _unpack(data: bytes) -> Iterator[tuple[str, bytes]]:
    position = 1
    for name in FILES[:-1]:
        size = int.from_bytes(data[position : position + 2], "big")
        yield name, data[position + 2 : position + 2 + size]
        position += 2 + size
    yield FILES[-1], data[position:]


def log_directory(data: bytes) -> None:
    """Open such a directory, look up, append, and open it again.

    The flags say whether it was shut down cleanly, and whether checksums stay as they are.
    """
    if not data:
        return
    memory = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    try:
        path = root / "orders-0"
        path.mkdir()
        for name, content in _unpack(data):
            right = name.endswith(".log") and not data[0] & _AS_IT_IS
            if content:
                (path / name).write_bytes(with_right_checksums(content) if right else content)
        clean = bool(data[0] & _CLEAN)
        with suppress(StorageError, RecordsError):
            log = open_log(root, CONFIG, clean=clean)
            try:
                _use(log)
            finally:
                log.close_files()
            # A log that was opened once can be opened again.
            open_log(root, CONFIG, recovery_point=log.log_end_offset).close_files()
    finally:
        shutil.rmtree(root)


def _read_on(log: PartitionLog, end: int) -> None:
    """Read as a consumer does, which gives up on a log whose offsets decrease: after a clean shutdown headers are
    trusted.
    """
    offset = log.log_start_offset
    while offset < end:
        data = bytes_of(log.read(offset, 4096, end))
        read_all(data, MAX_SIZE)
        following = max((header.next_offset for _, header in iter_batches(data)), default=offset)
        if following <= offset:
            return
        offset = following


def _use(log: PartitionLog) -> None:
    assert log.log_start_offset <= log.last_stable_offset <= log.high_watermark <= log.log_end_offset
    end = log.log_end_offset
    for offset in {log.log_start_offset, (log.log_start_offset + end) // 2, end}:
        with suppress(StorageError, RecordsError):
            log.read(offset, 4096, end)
        log.end_offset_for_epoch(offset & 0xFF)
        with suppress(StorageError, RecordsError):
            log.aborted_transactions(offset, end)
    for timestamp in (0, T0, 1 << 62):
        with suppress(StorageError, RecordsError):
            log.offset_for_timestamp(timestamp)
    with suppress(StorageError, RecordsError):
        log.max_timestamp()
    with suppress(StorageError, RecordsError):
        _read_on(log, end)
    with suppress(StorageError, RecordsError):
        offset = append(log, batch(b"next"))
        assert offset == end, "offsets go on where the log ends"
