"""A segment with offsets too far from its base for an index, as cleaners of old Apache Kafkas left them (KAFKA-6264).

It is split, as Apache Kafka does at a start: into segments of which each reaches as far as int32 relative offsets do.
They are made as `.cleaned` files and take its place as those of a cleaner do: until all of them are `.swap` files a
crash leaves the old one, from then on the new ones (rule R1, README). Indexes come with the recovery after it.
"""

from __future__ import annotations

from protocol.records.errors import CorruptBatch
from storage.fs import FileSystem
from storage.log_config import INT_MAX
from storage.segment.files import CLEANED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX, file_name
from storage.segment.scan import WHOLE_WINDOW, scan_entries


class SegmentOverflow(Exception):
    """A segment of `size_bytes` has to be split before it can be checked."""

    def __init__(self, base_offset: int, size_bytes: int) -> None:
        super().__init__(base_offset, size_bytes)
        self.base_offset = base_offset
        self.size_bytes = size_bytes


def split_segment(fs: FileSystem, directory: str, base_offset: int, size_bytes: int) -> list[int]:
    """Leave `.swap` files in place of the segment at `base_offset`; their base offsets. OSError."""
    path = f"{directory}/{file_name(base_offset, LOG_SUFFIX)}"
    with fs.reading(path) as source:
        pieces = _pieces(fs, source, base_offset, size_bytes)
        ends = [*(start for _, start in pieces[1:]), size_bytes]
        for (base, start), end in zip(pieces, ends, strict=True):
            _copy(fs, source, start, end, f"{directory}/{file_name(base, LOG_SUFFIX)}{CLEANED_SUFFIX}")
    fs.sync_path(directory)
    bases = [base for base, _ in pieces]
    for base in reversed(bases):  # the first one last: while it is not ready the others do not count
        name = f"{directory}/{file_name(base, LOG_SUFFIX)}"
        fs.rename(name + CLEANED_SUFFIX, name + SWAP_SUFFIX)
    fs.sync_path(directory)
    return bases


def _pieces(fs: FileSystem, handle: int, base_offset: int, size_bytes: int) -> list[tuple[int, int]]:
    """Base offsets, and the positions where they begin. What is no batch stays with those before it."""
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
