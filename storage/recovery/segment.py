"""Checking a segment after an unclean stop: batch by batch, cut at the first that is wrong, all derived made anew.

A batch counts when it is whole, its checksum is right, and its offsets follow those before it (rule R4, README). What
comes after the last that counts is kept beside the segment, for people to look at, before it is cut off:

    00000000000000368769.log.497.corrupt        what was in ...368769.log from byte 497 on; 0: the whole segment

Nobody reads such a file, and nobody removes it but with the partition. Zeros alone, as a preallocated file or a power
loss leaves them, are not kept.
"""

from __future__ import annotations

import errno
from contextlib import suppress

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
    """What recovery cut off a segment file. `kept`: where it is now; None: nowhere, as `kept_not` says."""

    path: str
    position: int
    size_bytes: int
    reason: str
    kept: str | None = None
    kept_not: str = ""

    def __str__(self) -> str:
        if not self.size_bytes:
            return f"{self.path}: the empty segment was removed: {self.reason}"
        kept = f"kept in {self.kept}" if self.kept else f"not kept: {self.kept_not}"
        return f"{self.path}: {self.size_bytes} bytes from byte {self.position} on were cut off: {self.reason}; {kept}"


def recover_segment(
    fs: FileSystem, segment: Segment, state: ProducerState, epochs: LeaderEpochs, limit: int = LONG_MAX
) -> Cut | None:
    """Keep the whole and right batches of a segment, make all that is derived from them anew; what was cut off.

    `state` is that at the segment's base offset, and becomes that at its end. At offset `limit` the next one begins.
    OSError. SegmentOverflow: it has to be split before.
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
    """A walk over a segment; what lies before `position` counts."""

    def __init__(
        self, fs: FileSystem, segment: Segment, state: ProducerState, epochs: LeaderEpochs, limit: int
    ) -> None:
        self._fs = fs
        self._segment = segment
        self._state = state
        self._epochs = epochs
        #: Held until the walk is over (rule H1): the indexes may need its room among the open files meanwhile.
        self._file = segment.log.open()
        self._handle = self._file.handle
        self.position = 0
        self._next_offset = segment.base_offset
        self._limit = limit
        self._last_possible = min(segment.base_offset + INT_MAX, limit - 1)

    def common_batches(self) -> None:
        """Go on over batches v2 of common sizes as long as nothing is wrong. Nearly all are: no call too many."""
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
        """Go on to the end, or to the first batch that does not count: why it does not."""
        segment, latest_epoch = self._segment, self._latest_epoch
        try:
            for entry, batch in scan_valid(self._fs, self._handle, self.position, segment.size_bytes):
                last, header = entry.last_offset, entry.header
                # The checksum does not cover the base offset.
                if entry.base_offset < self._next_offset:
                    return f"offset {entry.base_offset} comes where {self._next_offset} is the next"
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
        return "it is no whole batch"

    def _overflows(self, entry: Entry) -> bool:
        """Whether the batch is right, only too far from the base offset.

        No checksum covers its own offset. If a bit of that is wrong, the batch behind it has a lower one.
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
    """Copy what lies at [position, end) of a segment file beside it. OSError; but a full disk only leaves no copy."""
    kept = f"{path}.{position}{CORRUPT_SUFFIX}"
    try:
        copied = _copy(fs, path, position, end, kept)
    except OSError as error:
        if error.errno not in _NO_SPACE:
            raise
        fs.remove(kept)
        return Cut(path, position, end - position, reason, None, error.strerror or str(error))
    if not copied:
        fs.remove(kept)
        return Cut(path, position, end - position, reason, None, "they are zeros")
    return Cut(path, position, end - position, reason, kept)


def move_aside(fs: FileSystem, segment: Segment, reason: str) -> Cut:
    """Rename a whole segment, so that nobody reads it any more; its other files are removed. OSError."""
    path, kept = segment.log.path, f"{segment.log.path}.0{CORRUPT_SUFFIX}"
    size = segment.size_bytes
    if size:
        fs.rename(path, kept)
    segment.remove_files()
    return Cut(path, 0, size, reason, kept if size else None, "" if size else "it was empty")


def _copy(fs: FileSystem, path: str, position: int, end: int, target: str) -> bool:
    """Whether there was anything but zeros, of which long runs become holes."""
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
