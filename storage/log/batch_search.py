"""Search one batch for the first record at or after a timestamp.

A small batch is searched on the event loop. A larger one is searched in a worker process, which reads it from the file
itself. A caller that waits for the worker keeps only the path and the position.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from protocol.records.batch import CODEC_MASK
from protocol.records.buffer import Buffer
from protocol.records.compression import Codec
from protocol.records.entries import iter_records
from protocol.records.errors import CorruptBatch, OversizedRecord, RecordsError, TooLarge
from protocol.records.record import Record, skim_records
from storage.fs import LOCAL, FileSystem
from storage.index.time import TimestampOffset
from storage.log_config import LARGEST_RECORD_BYTES
from storage.segment.scan import Entry, parse_entry

#: A batch with more records or bytes goes to a worker. Up to these limits it takes the event loop at most 1.5 ms.
_INLINE_RECORDS, _INLINE_BYTES, _INLINE_COMPRESSED_BYTES = 512, 128 << 10, 16 << 10
#: The size of compressed records is unknown until they are decompressed. Larger ones go to a worker too.
_INLINE_UNPACKED_BYTES = 64 << 10
#: A compressed batch whose records have more bytes is not searched: a few bytes from a client could fill the memory.
_MOST_BYTES = 64 << 20


class BatchGone(Exception):
    """The file or the batch in it no longer exists: the segment was removed, cleaned or moved meanwhile."""


class SearchResult(NamedTuple):
    """The result of a search.

    `found` is None if no record matches or the records contradict their batch header. `records` is the number of
    records inspected. If `is_whole` is false, there are more records, or they are too large to be searched.
    """

    found: TimestampOffset | None
    records: int
    is_whole: bool = True


class BatchSearch(NamedTuple):
    """A search in the batch `entry` of the file `path`.

    It looks for the first record from `first_offset` on whose timestamp is at least `timestamp` (ms), or equal to it if
    `exact`. It inspects at most `most_records` records. A compressed record before the result may have at most
    `most_record_bytes`: max.decompressed.message.bytes.
    """

    path: str
    entry: Entry
    timestamp: int
    exact: bool
    first_offset: int
    most_records: int
    most_record_bytes: int = LARGEST_RECORD_BYTES

    @property
    def is_small(self) -> bool:
        """Whether the batch may be searched on the event loop, judged by its header."""
        size_bytes, header = self.entry.size_bytes, self.entry.header
        if header is None or header.attributes & CODEC_MASK != Codec.NONE:
            return size_bytes <= _INLINE_COMPRESSED_BYTES and (header is None or header.record_count <= _INLINE_RECORDS)
        return size_bytes <= _INLINE_BYTES and header.record_count <= _INLINE_RECORDS

    def of_small(self, batch: Buffer) -> SearchResult | None:
        """Search a small batch; return None if it decompresses to more than the inline limit.

        Raises OversizedRecord.
        """
        try:
            return self.of(batch, _INLINE_UNPACKED_BYTES)
        except TooLarge:
            return None

    def of(self, batch: Buffer, most_bytes: int) -> SearchResult:
        """Search the batch. Raises TooLarge if it decompresses to more than `most_bytes`, and OversizedRecord."""
        timestamp, first_offset = self.timestamp, self.first_offset
        count = 0
        try:
            for record in self._records(batch, most_bytes):
                count += 1
                fits = record.timestamp == timestamp if self.exact else record.timestamp >= timestamp
                if fits and record.offset >= first_offset:
                    return SearchResult(TimestampOffset(record.timestamp, record.offset), count)
                if count >= self.most_records:
                    return SearchResult(None, count, is_whole=False)
        except (TooLarge, OversizedRecord):
            raise
        except RecordsError:
            pass
        return SearchResult(None, count)

    def _records(self, batch: Buffer, most_bytes: int) -> Iterator[Record]:
        header = self.entry.header
        if header is None or header.codec == Codec.NONE or self.most_record_bytes >= LARGEST_RECORD_BYTES:
            return iter_records(batch, most_bytes)
        return skim_records(batch, header, most_bytes, self.most_record_bytes)


def search_file(search: BatchSearch, fs: FileSystem = LOCAL) -> SearchResult:
    """Search a batch in its file, for a worker process. It takes up to 0.2 s for a batch of small records.

    Raises OSError, OversizedRecord, and BatchGone if the batch is no longer there.
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
        return SearchResult(None, 0, is_whole=False)
