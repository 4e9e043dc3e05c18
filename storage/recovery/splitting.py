"""Split a segment whose offsets are too far from its base offset for an index (KAFKA-6264).

Cleaners of old Apache Kafka versions left such segments. Like Apache Kafka at a start, it is split into segments that
fit int32 relative offsets. They are written as `.cleaned` files and put in place as the cleaner does: after a crash the
old segment exists until all are `.swap` files, and the new ones from then on (rule R1, README). The recovery that
follows creates the indexes.
"""

from __future__ import annotations

from protocol.records.errors import CorruptBatch
from storage.fs import FileSystem
from storage.log_config import INT_MAX
from storage.segment.files import CLEANED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX, file_name
from storage.segment.scan import WHOLE_WINDOW, scan_entries


class SegmentOverflow(Exception):
    """A segment of `size_bytes` must be split before it can be checked."""

    def __init__(self, base_offset: int, size_bytes: int) -> None:
        super().__init__(base_offset, size_bytes)
        self.base_offset = base_offset
        self.size_bytes = size_bytes


def split_segment(fs: FileSystem, directory: str, base_offset: int, size_bytes: int) -> list[int]:
    """Replace the segment at `base_offset` with `.swap` files and return their base offsets. Raises OSError."""
    path = f"{directory}/{file_name(base_offset, LOG_SUFFIX)}"
    with fs.reading(path) as source:
        pieces = _pieces(fs, source, base_offset, size_bytes)
        ends = [*(start for _, start in pieces[1:]), size_bytes]
        for (base, start), end in zip(pieces, ends, strict=True):
            _copy(fs, source, start, end, f"{directory}/{file_name(base, LOG_SUFFIX)}{CLEANED_SUFFIX}")
    fs.sync_path(directory)
    bases = [base for base, _ in pieces]
    for base in reversed(bases):  # the first one last: until it is ready the others are ignored
        name = f"{directory}/{file_name(base, LOG_SUFFIX)}"
        fs.rename(name + CLEANED_SUFFIX, name + SWAP_SUFFIX)
    fs.sync_path(directory)
    return bases


def _pieces(fs: FileSystem, handle: int, base_offset: int, size_bytes: int) -> list[tuple[int, int]]:
    """Return base offset and position of each new segment. Invalid bytes stay with the batches before."""
    pieces = [(base_offset, 0)]
    try:
        for entry in scan_entries(fs, handle, 0, size_bytes):
            if entry.base_offset < pieces[-1][0]:
                break
            if entry.last_offset - pieces[-1][0] > INT_MAX:
                pieces.append((entry.base_offset, entry.position))
    except CorruptBatch:
        pass
    return pieces


def _copy(fs: FileSystem, source: int, start: int, end: int, target: str) -> None:
    handle = fs.open_write(target, create=True, empty=True)
    try:
        position = start
        while position < end and (piece := fs.pread(source, min(WHOLE_WINDOW, end - position), position)):
            fs.write_at(handle, position - start, (piece,))
            position += len(piece)
        fs.sync(handle)
    finally:
        fs.close(handle)
