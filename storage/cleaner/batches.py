"""Read a segment for the cleaner in windows of whole batches, with verified checksums.

Logs of small batches have very many, so the work per batch is one loop over a window. If all batches are v2, the fields
of their headers are arranged in columns and checked together.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from struct import Struct
from typing import NamedTuple

from protocol.records.batch import (
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchHeader,
    parse_header,
)
from protocol.records.crc32c import crc32c
from protocol.records.errors import CorruptBatch, RecordsError
from protocol.records.legacy import verify_message_crc
from storage.cleaner.compiled_walk import IS_COMPILED, walk_batches
from storage.cleaner.heads import Heads
from storage.cleaner.throttle import Throttle
from storage.errors import CorruptFile
from storage.fs import FileSystem
from storage.segment.scan import parse_entry

_UNPACK_HEADER = HEADER.unpack_from
_UNPACK_LENGTH = Struct(">8xI").unpack_from
_NEW_TUPLE = tuple.__new__
#: Below this average batch size a copy is cheaper than a memoryview.
_SMALL_BATCH = 2048

#: The start and end of a batch or message in a window, and its header; None for v0 and v1.
BatchSpan = tuple[int, int, BatchHeader | None]


class SingleBatches(NamedTuple):
    """The boundaries of the batches in a window where each batch is one record and the offsets have no gap."""

    base_offset: int
    borders: array[int]


class BatchWindow:
    """A range of a file, and the complete batches in it; they start at its beginning and have no gaps.

    `starts` and `ends` are their boundaries; `position` is where the window begins in its file. `single_offsets` are
    the batches' offsets if each is one uncompressed record without a transaction, else None; a range if they have no
    gap. `heads` are the first bytes of all batches, if they were collected.
    """

    __slots__ = ("_spans", "data", "ends", "heads", "position", "single_offsets", "starts")

    def __init__(
        self,
        data: bytes,
        position: int,
        borders: list[int],
        single_offsets: Sequence[int] | None = None,
        spans: list[BatchSpan] | None = None,
        heads: Heads | None = None,
    ) -> None:
        """`borders` are the starts of the batches and the end of the last one. Without `spans` all batches are v2."""
        self.data = data
        self.position = position
        self.starts = borders[:-1]
        self.ends = borders[1:]
        self.single_offsets = single_offsets
        self.heads = heads
        self._spans = spans

    @property
    def spans(self) -> list[BatchSpan]:
        """The boundaries and the header of each batch."""
        if self._spans is None:
            headers = [parse_header(self.data, start) for start in self.starts]
            self._spans = list(zip(self.starts, self.ends, headers, strict=True))
        return self._spans

    def single_batches(self) -> SingleBatches | None:
        """Return what to remember of the window for the second pass, or None."""
        offsets = self.single_offsets
        if not isinstance(offsets, range):
            return None
        return SingleBatches(offsets[0], array("I", (*self.starts, self.ends[-1])))


class KnownBatches:
    """The remembered windows of segments, by base offset and position, within a memory limit."""

    __slots__ = ("_known", "_room")

    def __init__(self, memory_bytes: int) -> None:
        """Use at most an eighth of `memory_bytes`."""
        self._known: dict[int, dict[int, SingleBatches]] = {}
        self._room = memory_bytes // 8 // array("I").itemsize

    def keep(self, segment: int, window: BatchWindow) -> None:
        single = window.single_batches() if len(window.starts) < self._room else None
        if single is not None:
            self._room -= len(single.borders)
            self._known.setdefault(segment, {})[window.position] = single

    def of(self, segment: int) -> Mapping[int, SingleBatches]:
        return self._known.get(segment, {})


def read_windows(
    fs: FileSystem,
    path: str,
    size_bytes: int,
    window_bytes: int,
    throttle: Throttle,
    *,
    known: Mapping[int, SingleBatches],
    verify: bool,
) -> Iterator[BatchWindow]:
    """Yield the whole batches of a file of `size_bytes` in windows. Raises CorruptFile and OSError.

    With `verify` the checksums are verified. A window has about `window_bytes`, or more if one batch needs it. `known`
    has the windows by position that were remembered when the file was read and verified before.
    """
    handle = fs.open_read(path)
    position, wanted = 0, window_bytes
    try:
        while position < size_bytes:
            single = known.get(position)
            if single is not None:  # a batch larger than a window was read by itself
                wanted = single.borders[-1]
            wanted = min(wanted, size_bytes - position)
            data = fs.pread(handle, wanted, position)
            throttle.count(len(data))
            if single is None:
                window = _window(data, path, position, verify)
            elif len(data) == single.borders[-1]:
                window = _known_window(data, position, single)
            else:
                raise _corrupt(path, position, "it is not whole")
            if window is not None:
                yield window
                position += window.ends[-1]
                wanted = window_bytes
                continue
            size = _size(data, 0, path, position)
            if size is None or len(data) < wanted or size > size_bytes - position:
                raise _corrupt(path, position, "it is not whole")
            wanted = size
    finally:
        fs.close(handle)


def _known_window(data: bytes, position: int, single: SingleBatches) -> BatchWindow:
    offsets = range(single.base_offset, single.base_offset + len(single.borders) - 1)
    return BatchWindow(data, position, single.borders.tolist(), offsets)


def _window(data: bytes, path: str, position: int, verify: bool) -> BatchWindow | None:
    """Return the whole batches in `data`; None if there is none. Raises CorruptFile."""
    window = _window_of_v2(data, position, verify)
    if window is not None:
        return window
    spans = _spans(data, path, position, verify)
    if not spans:
        return None
    return BatchWindow(data, position, [0, *(end for _, end, _ in spans)], spans=spans)


def _window_of_v2(data: bytes, position: int, verify: bool) -> BatchWindow | None:
    """Return the whole batches in `data` if all are v2 and valid; None if each must be checked by itself."""
    offsets: Sequence[int] | None
    heads = None
    if IS_COMPILED:
        found = walk_batches(data, verify)
        if found is None:
            return None
        borders, offsets = found
    else:
        borders = find_borders(data)
        heads = Heads(data, borders[:-1]) if len(borders) > 1 else None
        if heads is None or not heads.are_of_v2() or (verify and not _are_right(data, borders, heads)):
            return None
        offsets = heads.offsets().tolist() if heads.are_single() else None
        if offsets is not None and offsets[-1] - offsets[0] == len(offsets) - 1:
            in_a_row = range(offsets[0], offsets[-1] + 1)
            offsets = in_a_row if list(in_a_row) == offsets else offsets
    return BatchWindow(data, position, borders, offsets, heads=heads)


def find_borders(data: bytes) -> list[int]:
    """Return the starts of the whole batches and the end of the last one, if they are v2."""
    borders = [0]
    add, unpack, overhead = borders.append, _UNPACK_LENGTH, LOG_OVERHEAD
    at, last = 0, len(data) - HEADER_SIZE
    while at <= last:
        at += unpack(data, at)[0] + overhead
        add(at)
    if at > len(data):
        borders.pop()
    return borders


def _are_right(data: bytes, borders: list[int], heads: Heads) -> bool:
    """Return whether the checksums of all batches are right."""
    source = data if len(data) < _SMALL_BATCH * heads.count else memoryview(data)
    sums = [crc32c(source[start + CRC_START : end]) for start, end in pairwise(borders)]
    return array("I", sums) == heads.checksums()


def _spans(data: bytes, path: str, position: int, verify: bool) -> list[BatchSpan]:
    spans: list[BatchSpan] = []
    view, available, at = memoryview(data), len(data), 0
    while at < available:
        header: BatchHeader | None = None
        if at + HEADER_SIZE <= available:
            header = _NEW_TUPLE(BatchHeader, _UNPACK_HEADER(data, at))
            end = at + LOG_OVERHEAD + header[1]
        if header is not None and header[3] == 2 and end >= at + HEADER_SIZE:
            if end > available:
                break
            valid = not verify or crc32c(view[at + CRC_START : end]) == header[4]
        else:
            # a message of an old format may be smaller than a v2 header
            size = _size(data, at, path, position + at)
            if size is None or at + size > available:
                break
            header, end = None, at + size
            valid = not verify or verify_message_crc(view[at:end], 0, size)
        if not valid:
            raise _corrupt(path, position + at, "its checksum is wrong")
        spans.append((at, end, header))
        at = end
    return spans


def _size(data: bytes, at: int, path: str, position: int) -> int | None:
    """Return the size of the batch or message at `at`; None if its header is incomplete."""
    try:
        entry = parse_entry(data, at, position)
    except RecordsError as error:
        raise _corrupt(path, position, error) from None
    return None if entry is None else entry.size_bytes


def _corrupt(path: str, position: int, error: CorruptBatch | RecordsError | str) -> CorruptFile:
    return CorruptFile(path, f"the batch at byte {position} cannot be cleaned: {error}")
