"""Iterate over the batches of a segment file, of any format, by their headers or with their bytes.

An entry is a batch v2, or a message or message set of v0 or v1, which has only its last offset in the header. A scan
ends before an entry that exceeds the range. An impossible length or magic byte raises CorruptBatch.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from struct import Struct
from typing import NamedTuple

from protocol.records.batch import (
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    MIN_ENTRY_LENGTH,
    NO_TIMESTAMP,
    BatchHeader,
    verify_crc,
)
from protocol.records.crc32c import crc32c
from protocol.records.errors import CorruptBatch
from protocol.records.legacy import verify_message_crc
from storage.fs import FileSystem

#: Bytes per read when only headers are needed; usually an index interval and the batch after it.
_HEADER_WINDOW = 8 << 10
#: Bytes per read when whole segments are scanned. Smaller reads cost system calls; larger ones exceed the CPU cache.
WHOLE_WINDOW = 2 << 20

_START = Struct(">qi4xb")
#: Base offset, length, magic byte and last offset delta of a batch v2.
FRONT = Struct(">qi4xb6xi")
_ANY_OFFSET = (1 << 63) - 1
_MESSAGE_TIMESTAMP = Struct(">q")
_MESSAGE_TIMESTAMP_AT = 18


class Entry(NamedTuple):
    """A batch or message in a file.

    `header` is None for v0 and v1; their `base_offset` is also their last offset.
    """

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    magic: int
    header: BatchHeader | None


def parse_entry(buffer: bytes | memoryview, at: int, position: int) -> Entry | None:
    """Return the entry at index `at` of `buffer` and byte `position` of its file; None if `buffer` is too short.

    Only the header has to be in the buffer. Raises CorruptBatch if the header is impossible.
    """
    available = len(buffer) - at
    if available < _START.size:
        return None
    offset, length, magic = _START.unpack_from(buffer, at)
    if length < MIN_ENTRY_LENGTH or not 0 <= magic <= 2:
        raise CorruptBatch(f"invalid length {length} or magic {magic} at byte {position}")
    if magic == 2:
        if length + LOG_OVERHEAD < HEADER_SIZE:
            raise CorruptBatch(f"batch length {length} at byte {position} is below the minimum")
        if available < HEADER_SIZE:
            return None
        header = BatchHeader._make(HEADER.unpack_from(buffer, at))
        return Entry(position, length + LOG_OVERHEAD, offset, header.last_offset, header.max_timestamp, 2, header)
    timestamp = NO_TIMESTAMP
    if magic == 1:
        if available < _MESSAGE_TIMESTAMP_AT + _MESSAGE_TIMESTAMP.size:
            return None
        timestamp = _MESSAGE_TIMESTAMP.unpack_from(buffer, at + _MESSAGE_TIMESTAMP_AT)[0]
    return Entry(position, length + LOG_OVERHEAD, offset, offset, timestamp, magic, None)


def scan_entries(fs: FileSystem, handle: int, position: int, end: int, window: int = _HEADER_WINDOW) -> Iterator[Entry]:
    """Yield the entries that are completely within [position, end). Reads headers and skips records."""
    buffer, start = b"", position
    while position < end:
        at = position - start
        entry = parse_entry(buffer, at, position) if at < len(buffer) else None
        if entry is None:
            buffer, start = fs.pread(handle, min(window, end - position), position), position
            entry = parse_entry(buffer, 0, position)
            if entry is None:
                return
        position += entry.size_bytes
        if position > end:
            return
        yield entry


def find_entry(fs: FileSystem, handle: int, position: int, end: int, offset: int, first_offset: int) -> Entry | None:
    """Return the first entry within [position, end) whose last offset is at least `offset`; None if there is none.

    An index entry promises that the batch at `position` begins at `first_offset` or before. Raises CorruptBatch if no
    complete batch is there or it begins after that offset. `first_offset` is LONG_MAX if there is no promise. The
    result is that of a loop over `scan_entries` at a third of the cost, because lagging consumers need this function.
    """
    window, at = b"", 0
    while position < end:
        if len(window) - at < HEADER_SIZE:
            window, at = fs.pread(handle, min(_HEADER_WINDOW, end - position), position), 0
            if len(window) < HEADER_SIZE:
                break
        base_offset, length, magic, last_offset_delta = FRONT.unpack_from(window, at)
        if base_offset > first_offset:
            raise CorruptBatch(f"the batch at byte {position} begins at offset {base_offset}")
        if magic != 2 or length < HEADER_SIZE - LOG_OVERHEAD:
            break
        if base_offset + last_offset_delta >= offset:
            found = parse_entry(window, at, position)
            return found if found is not None and position + found.size_bytes <= end else None
        if first_offset != _ANY_OFFSET and position + length + LOG_OVERHEAD > end:
            break
        first_offset = _ANY_OFFSET
        position += length + LOG_OVERHEAD
        at += length + LOG_OVERHEAD
    for entry in scan_entries(fs, handle, position, end):
        # Bytes from the middle of a batch may have a valid message header, so the checksum is compared too.
        if first_offset != _ANY_OFFSET and not _is_message(fs, handle, entry):
            break
        if entry.last_offset >= offset:
            return entry
        first_offset = _ANY_OFFSET
    if first_offset != _ANY_OFFSET:
        raise CorruptBatch(f"no whole batch begins at byte {position}")
    return None


def _is_message(fs: FileSystem, handle: int, entry: Entry) -> bool:
    message = fs.pread(handle, entry.size_bytes, entry.position)
    return entry.magic == 2 or verify_message_crc(memoryview(message), 0, len(message))


class Window:
    """A range of a file in a reused buffer, for scans of whole files.

    `view` is the buffer; its first `filled` bytes are valid.
    """

    __slots__ = ("_end", "_fs", "_handle", "_position", "filled", "view")

    def __init__(self, fs: FileSystem, handle: int, end: int, size_bytes: int = WHOLE_WINDOW) -> None:
        self._fs = fs
        self._handle = handle
        self._position = 0
        self._end = end
        self.view = memoryview(bytearray(min(size_bytes, end)))
        self.filled = 0

    def move_to(self, position: int) -> bool:
        """Move the start of the window to `position`, keeping the bytes read so far. Return False at the end of the
        file.
        """
        rest = max(0, self._position + self.filled - position)
        if rest:
            begin = position - self._position
            self.view[:rest] = self.view[begin : begin + rest]
        self._position = position
        wanted = min(len(self.view), self._end - position)
        self.filled = rest
        while self.filled < wanted:
            count = self._fs.read_into(self._handle, self.view[self.filled : wanted], position + self.filled)
            if not count:
                break
            self.filled += count
        return self.filled > 0


def scan_whole(
    fs: FileSystem, handle: int, position: int, end: int, window: int = WHOLE_WINDOW
) -> Iterator[tuple[Entry, memoryview]]:
    """Yield the entries that are completely within [position, end), with their bytes. Checksums are not verified.

    The bytes are valid until the next step. An entry larger than `window` is yielded with only that many bytes, so a
    wrong length cannot cause a read of 1 GiB.
    """
    if position >= end:
        return
    piece, start = Window(fs, handle, end, window), position
    while position < end:
        at = position - start
        entry = parse_entry(piece.view[: piece.filled], at, position)
        if entry is None or at + entry.size_bytes > piece.filled:
            piece.move_to(position)
            start = position
            entry = parse_entry(piece.view[: piece.filled], 0, position)
            if entry is None:
                return
        if position + entry.size_bytes > end:
            return
        at = position - start
        yield entry, piece.view[at : min(piece.filled, at + entry.size_bytes)]
        position += entry.size_bytes


def scan_valid(
    fs: FileSystem, handle: int, position: int, end: int, window: int = WHOLE_WINDOW
) -> Iterator[tuple[Entry, memoryview]]:
    """Like `scan_whole`, but raise CorruptBatch at a wrong checksum."""
    for entry, batch in scan_whole(fs, handle, position, end, window):
        if not has_right_checksum(fs, handle, entry, batch, window):
            raise CorruptBatch(f"the checksum of the batch at byte {entry.position} is wrong")
        yield entry, batch


def has_right_checksum(
    fs: FileSystem, handle: int, entry: Entry, batch: memoryview, window: int = WHOLE_WINDOW
) -> bool:
    """Return whether the checksum of an entry is right. `batch` has its bytes from `scan_whole`.

    If they are incomplete, the entry is read from the file in pieces.
    """
    if len(batch) == entry.size_bytes:
        verify = verify_crc if entry.magic == 2 else verify_message_crc
        return verify(batch, 0, len(batch))
    function: Callable[[bytes, int], int]
    if entry.header is not None:
        at, function, stored = CRC_START, crc32c, entry.header.crc
    else:
        stored = int.from_bytes(fs.pread(handle, 4, entry.position + LOG_OVERHEAD), "big")
        at, function = MAGIC_OFFSET, zlib.crc32
    value = 0
    while at < entry.size_bytes:
        piece = fs.pread(handle, min(window, entry.size_bytes - at), entry.position + at)
        if not piece:
            return False
        value = function(piece, value)
        at += len(piece)
    return value == stored
