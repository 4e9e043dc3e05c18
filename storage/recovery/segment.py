"""Check a segment after an unclean shutdown: batch by batch, cut at the first bad one, derived files rebuilt.

A batch is good if it is whole, its checksum is right, and its offsets follow those of the previous batch (rule R4,
README). The bytes after the last good batch are copied to a file beside the segment before they are cut off:

    00000000000000368769.log.497.corrupt        the content of ...368769.log from byte 497 on; 0: the whole segment

The broker never reads such a file, and removes it only with the partition. If there is one from an earlier start, its
name continues with a number: ...368769.log.497.2.corrupt. Bytes that are all zero, as a preallocated file or a power
failure leaves them, are not copied.
"""

from __future__ import annotations

import errno
from contextlib import suppress
from itertools import chain, count

import msgspec

from protocol.records.batch import (
    CONTROL_BIT,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    TRANSACTIONAL_BIT,
    BatchHeader,
)
from protocol.records.crc32c import crc32c
from protocol.records.errors import CorruptBatch
from storage.fs import FileSystem
from storage.log.leader_epoch import LeaderEpochs
from storage.log_config import INT_MAX, LONG_MAX
from storage.producers.markers import note_batch
from storage.producers.state import ProducerState
from storage.recovery.splitting import SegmentOverflow
from storage.segment.scan import WHOLE_WINDOW, Entry, Window, scan_entries, scan_valid
from storage.segment.segment import Segment

CORRUPT_SUFFIX = ".corrupt"

_MAGIC_V2 = 2
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Cut(msgspec.Struct, frozen=True):
    """A part that recovery cut off a segment file.

    `kept` is the path of its copy; None if there is none, for the reason `not_kept_reason`.
    """

    path: str
    position: int
    size_bytes: int
    reason: str
    kept: str | None = None
    not_kept_reason: str = ""

    def __str__(self) -> str:
        if not self.size_bytes:
            return f"{self.path}: the empty segment was removed: {self.reason}"
        kept = f"kept in {self.kept}" if self.kept else f"not kept: {self.not_kept_reason}"
        return f"{self.path}: {self.size_bytes} bytes from byte {self.position} on were cut off: {self.reason}; {kept}"


def recover_segment(
    fs: FileSystem, segment: Segment, state: ProducerState, epochs: LeaderEpochs, limit: int = LONG_MAX
) -> Cut | None:
    """Keep the good batches of a segment and rebuild all derived files. Return what was cut off, or None.

    `state` is the producer state at the segment's base offset; on return it is the state at the segment's end. The next
    segment begins at offset `limit`. Raises OSError, and SegmentOverflow if the segment must be split first.
    """
    segment.begin_rebuild()
    segment.txn_index.reset()
    check = _Check(fs, segment, state, epochs, limit)
    check.common_batches()
    reason = check.other_batches()
    cut = None
    if check.position < segment.size_bytes:
        cut = keep_aside(fs, segment.log.path, check.position, segment.size_bytes, reason)
    segment.end_rebuild(check.position)
    return cut


class _Check:
    """A scan of a segment. The batches before `position` are good."""

    def __init__(
        self, fs: FileSystem, segment: Segment, state: ProducerState, epochs: LeaderEpochs, limit: int
    ) -> None:
        self._fs = fs
        self._segment = segment
        self._state = state
        self._epochs = epochs
        #: Held until the scan ends (rule H1): the file cache may evict the file while the indexes are written.
        self._file = segment.log.open()
        self._handle = self._file.handle
        self.position = 0
        self._next_offset = segment.base_offset
        self._limit = limit
        self._last_possible = min(segment.base_offset + INT_MAX, limit - 1)

    def common_batches(self) -> None:
        """Check batches v2 of usual sizes until something is wrong. Nearly all batches are such, so this loop makes few
        calls.
        """
        segment, state, unpack, index = self._segment, self._state, HEADER.unpack_from, self._segment.index_batch
        add_batch, last_possible = state.add_batch, self._last_possible
        position, next_offset, latest_epoch = self.position, self._next_offset, self._latest_epoch
        window = Window(self._fs, self._handle, segment.size_bytes)
        view, start, end = window.view, 0, 0
        while True:
            at = position - start
            if end - at < HEADER_SIZE or at + (size := int.from_bytes(view[at + 8 : at + 12]) + LOG_OVERHEAD) > end:
                if not window.move_to(position):
                    break
                start, end, at = position, window.filled, 0
                if end < HEADER_SIZE or (size := int.from_bytes(view[8:12]) + LOG_OVERHEAD) > end:
                    break
            header = unpack(view, at)
            base, _, epoch, magic, crc, flags, delta, _, timestamp, producer_id, producer_epoch, sequence, _ = header
            last = base + delta
            if (
                magic != _MAGIC_V2
                or size < HEADER_SIZE
                or crc32c(view[at + CRC_START : at + size], 0) != crc
                or not next_offset <= base <= last <= last_possible
            ):
                break
            index(position, size, last, timestamp)
            if epoch > latest_epoch:
                latest_epoch = epoch
                self._epochs.assign(epoch, base)
            if producer_id >= 0:
                if flags & CONTROL_BIT:
                    note_batch(state, segment.txn_index, view[at : at + size], BatchHeader._make(header), last)
                else:
                    add_batch(
                        producer_id,
                        producer_epoch,
                        sequence,
                        last,
                        delta,
                        timestamp,
                        flags & TRANSACTIONAL_BIT != 0,
                    )
            next_offset = last + 1
            position += size
        self._move(position, next_offset)

    def other_batches(self) -> str:
        """Check the other batches to the end, or to the first bad one. Return why that one is bad."""
        segment, latest_epoch = self._segment, self._latest_epoch
        try:
            for entry, batch in scan_valid(self._fs, self._handle, self.position, segment.size_bytes):
                last, header = entry.last_offset, entry.header
                # The checksum does not cover the base offset.
                if entry.base_offset < self._next_offset:
                    return f"a batch begins at offset {entry.base_offset}, below the expected {self._next_offset}"
                if self._overflows(entry):
                    raise SegmentOverflow(segment.base_offset, segment.size_bytes)
                if not entry.base_offset <= last <= self._last_possible:
                    return f"a batch has the offsets {entry.base_offset} to {last}"
                segment.index_entry(entry)
                if header is not None:
                    if header.leader_epoch > latest_epoch:
                        latest_epoch = header.leader_epoch
                        self._epochs.assign(latest_epoch, entry.base_offset)
                    note_batch(self._state, segment.txn_index, batch, header, last)
                self._move(entry.position + entry.size_bytes, last + 1)
        except CorruptBatch as error:
            return str(error)
        return "the last batch is incomplete"

    def _overflows(self, entry: Entry) -> bool:
        """Return whether the batch is good except that it is too far from the base offset of the segment.

        The checksum does not cover the base offset. If one of its bits is wrong, the next batch has a lower offset.
        """
        segment = self._segment
        if not self.position or not segment.base_offset + INT_MAX < entry.last_offset < self._limit:
            return False
        following = entry.position + entry.size_bytes
        with suppress(CorruptBatch):
            for other in scan_entries(self._fs, self._handle, following, segment.size_bytes):
                return entry.base_offset <= entry.last_offset < other.base_offset
        return entry.base_offset <= entry.last_offset

    @property
    def _latest_epoch(self) -> int:
        latest = self._epochs.latest
        return -1 if latest is None else latest

    def _move(self, position: int, next_offset: int) -> None:
        self.position = position
        if position:
            self._next_offset = self._state.end_offset = next_offset


def keep_aside(fs: FileSystem, path: str, position: int, end: int, reason: str) -> Cut:
    """Copy [position, end) of a segment file to a `.corrupt` file. Raises OSError, but not if the disk is full."""
    kept = _free_name(fs, path, position)
    try:
        copied = _copy(fs, path, position, end, kept)
    except OSError as error:
        if error.errno not in _NO_SPACE:
            raise
        fs.remove(kept)
        return Cut(path, position, end - position, reason, None, error.strerror or str(error))
    if not copied:
        fs.remove(kept)
        return Cut(path, position, end - position, reason, None, "all bytes are zero")
    return Cut(path, position, end - position, reason, kept)


def _free_name(fs: FileSystem, path: str, position: int) -> str:
    """Return the path of a `.corrupt` file for the bytes of a segment from `position` on.

    Files with other bytes are kept; an interrupted start may have copied the same bytes already.
    """
    names = (f"{path}.{position}{number}{CORRUPT_SUFFIX}" for number in chain([""], map(".{}".format, count(2))))
    return next(name for name in names if not fs.exists(name) or _continues(fs, path, position, name))


def _continues(fs: FileSystem, path: str, position: int, copy: str) -> bool:
    """Return whether a segment's bytes from `position` on begin with those of `copy`."""
    with fs.reading(path) as source, fs.reading(copy) as handle:
        done = 0
        while piece := fs.pread(handle, WHOLE_WINDOW, done):
            if fs.pread(source, len(piece), position + done) != piece:
                return False
            done += len(piece)
    return True


def move_aside(fs: FileSystem, segment: Segment, reason: str) -> Cut:
    """Rename a whole segment to a `.corrupt` file and remove its other files. Raises OSError."""
    path, kept = segment.log.path, _free_name(fs, segment.log.path, 0)
    size = segment.size_bytes
    if size:
        fs.rename(path, kept)
    segment.remove_files()
    return Cut(path, 0, size, reason, kept if size else None, "" if size else "it was empty")


def _copy(fs: FileSystem, path: str, position: int, end: int, target: str) -> bool:
    """Copy a range of a file; long runs of zeros become holes. Return whether any byte was not zero."""
    with fs.reading(path) as source:
        handle = fs.open_write(target, create=True, empty=True)
        try:
            start, written = position, False
            while position < end and (piece := fs.pread(source, min(WHOLE_WINDOW, end - position), position)):
                if piece.count(0) < len(piece):
                    fs.write_at(handle, position - start, (piece,))
                    written = True
                position += len(piece)
            fs.truncate(handle, position - start)
            return written
        finally:
            fs.close(handle)
