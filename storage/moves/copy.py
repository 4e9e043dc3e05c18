"""A copy of a log in another log directory, made by a worker while the log goes on (KIP-113).

The copy lies in `<topic>-<partition>.<32 hex digits>-future`. A round opens it, appends batches as they stand in the
files of the log, forces it to the disk and closes it as a clean stop does; the next one goes on where it ended. What is
left of a copy after a crash is recovered by the first round after it, and kept if the log has the same batches.

Two disks are at work, so an error says whose file it is: of the log that is copied it is a `SourceUnreadable`, of the
copy a plain OSError. (The directory that fails in a worker is not the broker's own, which has to hear of it.)
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
from storage.log.local import LocalLog
from storage.log.partition_log import PartitionLog
from storage.log.stored_log import StoredLog
from storage.log.tasks import FlushTask
from storage.log_config import LONG_MAX
from storage.recovery.loading import load_log
from storage.segment.scan import parse_entry

_READ_BYTES = 1 << 20
#: Offset, length, leader epoch, magic, checksum; of the old formats no less than offset, length, checksum, magic.
_HEAD_BYTES = 21


class Piece(msgspec.Struct, frozen=True):
    """Whole batches of a file, from `position` up to `end`."""

    path: str
    position: int
    end: int


class CopyJob(msgspec.Struct, frozen=True):
    """One round.

    `log` is the copy: `clean` when a round of this broker has left it, and `log_start_offset` is where it begins if it
    is empty. At most about `most_bytes` are copied, at least a batch if there is one in `pieces`.
    """

    log_dir: str
    log: StoredLog
    topic_id: bytes | None
    pieces: tuple[Piece, ...] = ()
    most_bytes: int = 0


class Copied(msgspec.Struct, frozen=True):
    """What the copy is after a round. All of it is on the disk. `last_batch`: see `last_batch`."""

    end_offset: int
    size_bytes: int
    last_batch: bytes


@contextmanager
def of_source() -> Iterator[None]:
    """Around what reads the log that is copied: its OSError becomes a SourceUnreadable."""
    try:
        yield
    except OSError as error:
        raise SourceUnreadable(error) from error


@contextmanager
def of_copy() -> Iterator[None]:
    """Around what writes the copy in a worker: what its log makes of an OSError is that OSError again."""
    try:
        yield
    except LogOffline as offline:
        if isinstance(offline.__cause__, OSError):
            raise offline.__cause__ from None
        raise


@of_copy()
def copy_batches(job: CopyJob, fs: FileSystem = LOCAL) -> Copied:
    """Do a round. OSError, StorageError."""
    fs.make_directory(job.log.path)
    if job.topic_id is not None and not fs.exists(f"{job.log.path}/{PARTITION_METADATA}"):
        write_topic_id(fs, job.log.path, job.topic_id)
    copy = load_log(LogDirectory(job.log_dir, fs), job.log)
    left_bytes = job.most_bytes
    for piece in job.pieces:
        for batches in _read(fs, piece, left_bytes):
            append_copied(copy, batches, job.log.now_ms)
            left_bytes -= len(batches)
        if left_bytes <= 0:
            break
    copied = Copied(copy.log_end_offset, copy.size_bytes, last_batch(copy))
    _close(copy, job.log.now_ms)
    return copied


def _read(fs: FileSystem, piece: Piece, most_bytes: int) -> Iterator[memoryview]:
    """Whole batches of a piece, some at a time, until there were enough bytes. SourceUnreadable, CorruptFile."""
    with of_source():
        handle = fs.open_read(piece.path)
    try:
        position, stop = piece.position, min(piece.end, piece.position + max(most_bytes, 1))
        size = _READ_BYTES
        while position < stop:
            with of_source():
                data = fs.pread(handle, min(size, piece.end - position), position)
            whole = _whole_batches(data)
            if whole:
                yield memoryview(bytearray(data))[:whole]
                position, size = position + whole, _READ_BYTES
                continue
            former, size = size, int.from_bytes(data[8:LOG_OVERHEAD], "big") + LOG_OVERHEAD
            if size <= former or position + size > piece.end:
                raise CorruptFile(piece.path, f"there is no batch at byte {position}")
    finally:
        fs.close(handle)


def _whole_batches(data: bytes) -> int:
    """How many bytes of `data` are whole batches."""
    position = 0
    while position + LOG_OVERHEAD <= len(data):
        end = position + LOG_OVERHEAD + int.from_bytes(data[position + 8 : position + LOG_OVERHEAD], "big")
        if end > len(data):
            break
        position = end
    return position


def append_copied(copy: PartitionLog, batches: memoryview, now_ms: int) -> None:
    """Append whole batches of the log that is copied. OSError, LogOffline, and CorruptRecords for what is none."""
    position = 0
    while position < len(batches):
        entry = parse_entry(batches, position, position)
        if entry is None:
            raise CorruptRecords("a batch ends before its header does")
        batch = batches[position : position + entry.size_bytes]
        position += entry.size_bytes
        if entry.header is not None:
            copy.append_replicated(batch, now_ms=now_ms)
        else:
            copy.append_old_format(batch, entry.last_offset, entry.max_timestamp, now_ms)
            copy.producer_state.end_offset = copy.log_end_offset
            copy.advance_high_watermark(copy.log_end_offset)


def append_rest(copy: PartitionLog, log: PartitionLog, now_ms: int) -> None:
    """Append all that a copy lacks, and take over where the log starts. OSError, StorageError."""
    with of_source():
        pieces = pieces_from(log, copy.log_end_offset, LONG_MAX)
    for piece in pieces:
        for batches in _read(log.directory.fs, piece, LONG_MAX):
            append_copied(copy, batches, now_ms)
    if copy.log_end_offset != log.log_end_offset:
        raise UnexpectedAppendOffset(copy.log_end_offset, log.log_end_offset)
    copy.raise_log_start(log.log_start_offset)


def _close(log: PartitionLog, now_ms: int) -> None:
    """As a clean stop leaves a log. OSError."""
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
    """Where a copy of a log begins: with the batch in which its log start offset lies, or would. OSError."""
    offset = log.log_start_offset
    for segment in log.segments.from_offset(offset):
        entry = segment.find(offset)
        if entry is not None:
            return min(entry.base_offset, offset)
    return offset


def pieces_from(log: LocalLog, offset: int, most_bytes: int) -> tuple[Piece, ...]:
    """What a log has from the batch that ends at `offset` or after it on; about so many bytes. OSError."""
    pieces: list[Piece] = []
    found_bytes = 0
    for segment in log.segments.from_offset(offset):
        entry = segment.find(offset) if not pieces else None
        position = 0 if entry is None else entry.position
        if not pieces and entry is None:
            continue
        if position < segment.size_bytes:
            pieces.append(Piece(segment.log.path, position, segment.size_bytes))
            found_bytes += segment.size_bytes - position
        if found_bytes >= most_bytes:
            break
    return tuple(pieces)


def last_batch(log: LocalLog) -> bytes:
    """The beginning of the last batch; empty without batches. OSError."""
    return batch_head(log, log.log_end_offset - 1) if log.size_bytes else b""


def batch_head(log: LocalLog, offset: int) -> bytes:
    """The beginning of the batch in which `offset` lies, checksum included; empty where there is none. OSError."""
    if not log.segments[0].base_offset <= offset < log.log_end_offset:
        return b""
    pieces = pieces_from(log, offset, 1)
    if not pieces:
        return b""
    with log.directory.fs.reading(pieces[0].path) as handle:
        return log.directory.fs.pread(handle, _HEAD_BYTES, pieces[0].position)
