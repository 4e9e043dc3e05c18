"""Copy a log to another log directory in a worker process, while the log is in use (KIP-113).

The copy is in `<topic>-<partition>.<32 hex digits>-future`. A round opens it, appends batches as they are in the files
of the log, forces them to the disk and closes the copy as a clean shutdown does. The next round continues at its end.
After a crash the first round recovers the copy, and keeps it if the log has the same batches.

Two disks are involved, so errors name the one at fault: an unreadable file of the source log is a `SourceUnreadable`, a
failed write to the copy a plain OSError. The `LogDirectory` in the worker is not the broker's own, so the broker must
get the error to take its directory offline.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from protocol.records.batch import LOG_OVERHEAD
from storage.checkpoints import PARTITION_METADATA, write_topic_id
from storage.errors import CorruptFile, CorruptRecords, LogOffline, SourceUnreadable, UnexpectedAppendOffset
from storage.fs import LOCAL, FileSystem
from storage.log.directory import LogDirectory
from storage.log.local_log import LocalLog
from storage.log.partition_log import PartitionLog
from storage.log.stored_log import StoredLog
from storage.log.tasks import FlushTask
from storage.log_config import LONG_MAX
from storage.recovery.loading import load_log

_READ_BYTES = 1 << 20
#: Offset, length, leader epoch, magic byte and checksum; in the old formats at least offset, length, checksum and magic
#: byte.
_HEAD_BYTES = 21


class BatchRange(msgspec.Struct, frozen=True):
    """Whole batches of a file, from `position` to `end` (exclusive)."""

    path: str
    position: int
    end: int


class CopyJob(msgspec.Struct, frozen=True):
    """One round of a copy.

    `log` is the copy. It is `clean` if a round of this broker closed it, and `log_start_offset` is its start if it is
    empty. A round copies about `most_bytes`, but at least one batch if `pieces` has any.
    """

    log_dir: str
    log: StoredLog
    topic_id: bytes | None
    pieces: tuple[BatchRange, ...] = ()
    most_bytes: int = 0


class CopyProgress(msgspec.Struct, frozen=True):
    """The state of the copy after a round. All of it is on the disk. `last_batch`: see the function of that name."""

    end_offset: int
    size_bytes: int
    last_batch: bytes


@contextmanager
def source_errors() -> Iterator[None]:
    """Turn an OSError from reading the source log into SourceUnreadable."""
    try:
        yield
    except OSError as error:
        raise SourceUnreadable(error) from error


@contextmanager
def copy_errors() -> Iterator[None]:
    """Turn the LogOffline of the copy's log back into the OSError that caused it."""
    try:
        yield
    except LogOffline as offline:
        if isinstance(offline.__cause__, OSError):
            raise offline.__cause__ from None
        raise


@copy_errors()
def copy_batches(job: CopyJob, fs: FileSystem = LOCAL) -> CopyProgress:
    """Run one round. Raises OSError or StorageError."""
    fs.make_directory(job.log.path)
    if job.topic_id is not None and not fs.exists(f"{job.log.path}/{PARTITION_METADATA}"):
        write_topic_id(fs, job.log.path, job.topic_id)
    copy = load_log(LogDirectory(job.log_dir, fs), job.log)
    left_bytes = job.most_bytes
    for piece in job.pieces:
        for batches in _read(fs, piece, left_bytes):
            _append(copy, batches, job.log.now_ms)
            left_bytes -= len(batches)
        if left_bytes <= 0:
            break
    copied = CopyProgress(copy.log_end_offset, copy.size_bytes, last_batch(copy))
    _close(copy, job.log.now_ms)
    return copied


def _read(fs: FileSystem, piece: BatchRange, most_bytes: int) -> Iterator[memoryview]:
    """Yield whole batches of a piece, several at a time, until `most_bytes` were read.

    Raises SourceUnreadable or CorruptFile.
    """
    with source_errors():
        handle = fs.open_read(piece.path)
    try:
        position, stop = piece.position, min(piece.end, piece.position + max(most_bytes, 1))
        size = _READ_BYTES
        while position < stop:
            with source_errors():
                data = fs.pread(handle, min(size, piece.end - position), position)
            whole = _whole_batches(data)
            if whole:
                yield memoryview(bytearray(data))[:whole]
                position, size = position + whole, _READ_BYTES
                continue
            former, size = size, int.from_bytes(data[8:LOG_OVERHEAD], "big") + LOG_OVERHEAD
            if size <= former or position + size > piece.end:
                raise CorruptFile(piece.path, f"no batch at byte {position}")
    finally:
        fs.close(handle)


def _whole_batches(data: bytes) -> int:
    """Return how many bytes of `data` are whole batches."""
    position = 0
    while position + LOG_OVERHEAD <= len(data):
        end = position + LOG_OVERHEAD + int.from_bytes(data[position + 8 : position + LOG_OVERHEAD], "big")
        if end > len(data):
            break
        position = end
    return position


def _append(copy: PartitionLog, batches: memoryview, now_ms: int) -> None:
    """Append whole batches of the source log to a copy. Raises OSError, LogOffline and CorruptRecords."""
    if copy.append_replicated(batches, now_ms=now_ms) != len(batches):
        raise CorruptRecords("a batch is shorter than its header")


def append_rest(copy: PartitionLog, log: PartitionLog, now_ms: int) -> None:
    """Append all batches that a copy lacks and set its log start offset. Raises OSError or StorageError."""
    with source_errors():
        pieces = pieces_from(log, copy.log_end_offset, LONG_MAX)
    for piece in pieces:
        for batches in _read(log.directory.fs, piece, LONG_MAX):
            _append(copy, batches, now_ms)
    if copy.log_end_offset != log.log_end_offset:
        raise UnexpectedAppendOffset(copy.log_end_offset, log.log_end_offset)
    copy.raise_log_start(log.log_start_offset)
    if log.config.tiered:
        copy.begin_as(log)


def _close(log: PartitionLog, now_ms: int) -> None:
    """Close a log as a clean shutdown does. Raises OSError."""
    fs = log.directory.fs
    log.complete()
    if (data := log.leader_epochs.unwritten()) is not None:
        fs.replace_file(log.leader_epochs.path, data, sync=True)
    log.mark_unsynced(log.path)
    flush = FlushTask(log, now_ms, with_active=True)
    flush.run()
    log.close_files()
    if flush.error is not None:
        raise flush.error


def first_offset(log: LocalLog) -> int:
    """Return the first offset of a copy: of the batch that contains the first offset on this disk. Raises OSError."""
    offset = log.local_start_offset
    for segment in log.segments.from_offset(offset):
        entry = segment.find(offset)
        if entry is not None:
            return min(entry.base_offset, offset)
    return offset


def pieces_from(log: LocalLog, offset: int, most_bytes: int) -> tuple[BatchRange, ...]:
    """Return pieces of the log's files from the batch that ends at `offset` or later, about `most_bytes`. Raises
    OSError.
    """
    pieces: list[BatchRange] = []
    found_bytes = 0
    for segment in log.segments.from_offset(offset):
        entry = segment.find(offset) if not pieces else None
        position = 0 if entry is None else entry.position
        if not pieces and entry is None:
            continue
        if position < segment.size_bytes:
            pieces.append(BatchRange(segment.log.path, position, segment.size_bytes))
            found_bytes += segment.size_bytes - position
        if found_bytes >= most_bytes:
            break
    return tuple(pieces)


def last_batch(log: LocalLog) -> bytes:
    """Return the first bytes of the last batch; empty if the log has no batch. Raises OSError."""
    return batch_head(log, log.log_end_offset - 1) if log.size_bytes else b""


def batch_head(log: LocalLog, offset: int) -> bytes:
    """Return the first bytes of the batch that contains `offset`, up to its checksum; empty if none. Raises OSError."""
    if not log.segments[0].base_offset <= offset < log.log_end_offset:
        return b""
    pieces = pieces_from(log, offset, 1)
    if not pieces:
        return b""
    with log.directory.fs.reading(pieces[0].path) as handle:
        return log.directory.fs.pread(handle, _HEAD_BYTES, pieces[0].position)
