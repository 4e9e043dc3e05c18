"""A search in one batch: the first of its records that is not earlier than a time.

A small batch is searched where it is asked for, a larger one in a worker, which reads it from its file by itself:
whoever waits for that keeps names and numbers.
"""

from __future__ import annotations

from typing import NamedTuple

from protocol.records.batch import CODEC_MASK
from protocol.records.buffer import Buffer
from protocol.records.compression import Codec
from protocol.records.errors import CorruptBatch, RecordsError, TooLarge
from protocol.records.record import iter_records
from storage.fs import LOCAL, FileSystem
from storage.index.time import TimestampOffset
from storage.segment.scan import Entry, parse_entry

#: A batch with more records, or more bytes, goes to a worker: it takes the loop a millisecond and a half at most.
_INLINE_RECORDS, _INLINE_BYTES, _INLINE_COMPRESSED_BYTES = 512, 128 << 10, 16 << 10
#: Nobody knows what compressed records grow to: those that need more than this go to a worker, too.
_INLINE_UNPACKED_BYTES = 64 << 10
#: A compressed batch with more bytes of records is not looked into: a few bytes of a client would fill the memory.
_MOST_BYTES = 64 << 20


class BatchGone(Exception):
    """The file has gone, or has another batch there: the segment was removed, cleaned or moved meanwhile."""


class Searched(NamedTuple):
    """What came of a search: `found` None where no record fits, or where they are not what their header promises.

    `records` is how many were looked at; not `is_whole`: there are more, or they are too large to be looked at.
    """

    found: TimestampOffset | None
    records: int
    is_whole: bool = True


class BatchSearch(NamedTuple):
    """Look in the batch `entry` of the file `path` for the first record from `first_offset` on that is not earlier than
    `timestamp` (ms), or, `exact`, has just that one; at `most_records`.
    """

    path: str
    entry: Entry
    timestamp: int
    exact: bool
    first_offset: int
    most_records: int

    @property
    def is_small(self) -> bool:
        """Whether it may be searched on the loop, as far as the header tells."""
        size_bytes, header = self.entry.size_bytes, self.entry.header
        if header is None or header.attributes & CODEC_MASK != Codec.NONE:
            return size_bytes <= _INLINE_COMPRESSED_BYTES and (header is None or header.record_count <= _INLINE_RECORDS)
        return size_bytes <= _INLINE_BYTES and header.record_count <= _INLINE_RECORDS

    def of_small(self, batch: Buffer) -> Searched | None:
        """Search a small batch; None where it unpacks to more than a small one may."""
        try:
            return self.of(batch, _INLINE_UNPACKED_BYTES)
        except TooLarge:
            return None

    def of(self, batch: Buffer, most_bytes: int) -> Searched:
        """Search it, which takes at most so many bytes once it is unpacked. TooLarge."""
        timestamp, first_offset = self.timestamp, self.first_offset
        count = 0
        try:
            for record in iter_records(batch, most_bytes):
                count += 1
                fits = record.timestamp == timestamp if self.exact else record.timestamp >= timestamp
                if fits and record.offset >= first_offset:
                    return Searched(TimestampOffset(record.timestamp, record.offset), count)
                if count >= self.most_records:
                    return Searched(None, count, is_whole=False)
        except TooLarge:
            raise
        except RecordsError:
            pass
        return Searched(None, count)


def search_file(search: BatchSearch, fs: FileSystem = LOCAL) -> Searched:
    """Search a batch where it lies, in a worker: a fifth of a second, where it is all small records.

    OSError; BatchGone.
    """
    size_bytes, position = search.entry.size_bytes, search.entry.position
    try:
        with fs.reading(search.path) as handle:
            batch = fs.pread(handle, size_bytes, position)
    except FileNotFoundError:
        raise BatchGone(search.path) from None
    try:
        is_it = len(batch) == size_bytes and parse_entry(batch, 0, position) == search.entry
    except CorruptBatch:
        is_it = False
    if not is_it:
        raise BatchGone(search.path)
    try:
        return search.of(batch, _MOST_BYTES)
    except TooLarge:
        return Searched(None, 0, is_whole=False)
