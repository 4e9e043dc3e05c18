"""Iterate over the records of entries of any format: batches v2, and messages v0 and v1."""

from collections.abc import Iterator

from protocol.records.batch import entry_at
from protocol.records.buffer import Buffer
from protocol.records.compression import DEFAULT_MAX_SIZE
from protocol.records.errors import CorruptBatch
from protocol.records.legacy import iter_entry_records
from protocol.records.record import Record, iter_batch_records


def iter_records(buffer: Buffer, max_size: int = DEFAULT_MAX_SIZE) -> Iterator[Record]:
    """Yield the records of all whole entries in `buffer`, of any format, in order, including control records.

    Decompresses at most `max_size` bytes per entry. Raises CorruptBatch, InvalidRecord and UnsupportedCodec at the
    entry concerned. Verifies no checksum.
    """
    position = 0
    view = memoryview(buffer)
    while (entry := entry_at(view, position)) is not None:
        _, size, magic = entry
        if magic == 2:
            yield from iter_batch_records(view[position : position + size], max_size=max_size)
        elif magic in (0, 1):
            yield from iter_entry_records(view[position : position + size], max_size=max_size)
        else:
            raise CorruptBatch(f"unknown magic {magic}")
        position += size
