"""Walking over the batches of a segment file, of any format, by their headers or whole.

An entry is a batch v2 or a message (set) of v0/v1, which has only its last offset in the header. A walk ends before
an entry that does not end within the range; one whose length or magic cannot be raises CorruptBatch.
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

#: Bytes read at a time where headers are looked at: an index interval and the batch beyond it, mostly.
_HEADER_WINDOW = 8 << 10
#: Bytes read at a time where whole segments are walked: below this calls cost, above it the processor's cache.
WHOLE_WINDOW = 2 << 20

_START = Struct(">qi4xb")
#: Base offset, length, magic and last offset delta of a batch v2.
FRONT = Struct(">qi4xb6xi")
_ANY_OFFSET = (1 << 63) - 1
_MESSAGE_TIMESTAMP = Struct(">q")
_MESSAGE_TIMESTAMP_AT = 18


class Entry(NamedTuple):
    """A batch (or message) in a file. `header` is None for v0 and v1, whose `base_offset` is their last offset too."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    magic: int
    header: BatchHeader | None


def parse_entry(buffer: bytes | memoryview, at: int, position: int) -> Entry | None:
    """The entry whose bytes begin at `at` of `buffer` and at `position` of its file; None when too few are there.

    Only the header needs to be in the buffer. Raises CorruptBatch for a header that nobody writes.
    """
    available = len(buffer) - at
    if available < _START.size:
        return None
    offset, length, magic = _START.unpack_from(buffer, at)
    if length < MIN_ENTRY_LENGTH or not 0 <= magic <= 2:
        raise CorruptBatch(f"no entry has length {length} and magic {magic}, as at byte {position}")
    if magic == 2:
        if length + LOG_OVERHEAD < HEADER_SIZE:
            raise CorruptBatch(f"batch length {length} at byte {position} is below the smallest possible")
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
    """The entries that lie wholly within [position, end), by their headers; what they carry is skipped."""
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
    """The first entry within [position, end) that ends at `offset` or after it; None where there is none.

    CorruptBatch: also when what lies at `position` is no whole batch, or begins after `first_offset`, and so is not
    what an index promised; the largest offset there is stands for no promise.
    The same as looking through `scan_entries`, at a third of the cost: consumers that are behind come here.
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
        # Bytes from within a batch may look like a message: nothing in its header is surprising.
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
    """A piece of a file in one buffer that is used again and again: for those who walk over whole files.

    `view` is of the buffer; its first `filled` bytes are of the file.
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
        """Have the window begin at `position`; what of it is there already is not read again. False at the end."""
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
    """The entries that lie wholly within [position, end), each with its bytes, whatever its checksum is.

    The bytes live until the next step; of an entry above `window` bytes only that many are given: a length that lies
    cannot make this read a gigabyte at once.
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
    """`scan_whole`, for entries whose checksums are right. CorruptBatch: one is wrong."""
    for entry, batch in scan_whole(fs, handle, position, end, window):
        if not has_right_checksum(fs, handle, entry, batch, window):
            raise CorruptBatch(f"the checksum of the batch at byte {entry.position} is wrong")
        yield entry, batch


def has_right_checksum(
    fs: FileSystem, handle: int, entry: Entry, batch: memoryview, window: int = WHOLE_WINDOW
) -> bool:
    """Of an entry, and the bytes of it that `scan_whole` gave: if they are not all, it is read piece by piece."""
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
