"""Validate a batch, or an old message set, and turn its records into rows.

Control batches are skipped; so are batches of aborted transactions if only committed records are wanted.
"""

from __future__ import annotations

from collections.abc import Callable

from protocol.records.batch import HEADER_SIZE, BatchHeader, entry_at, parse_header, verify_crc
from protocol.records.errors import CorruptBatch
from protocol.records.legacy import iter_entry_records, parse_message, verify_message_crc
from pybroker.isolated.rows import Rows

#: timestampType of format v0, which has no timestamps.
_NO_TIMESTAMP_TYPE = -1

IsAborted = Callable[[BatchHeader, memoryview], bool]
"""Return whether a batch's transaction was aborted. Called for every v2 batch in order, also for control batches."""


def no_aborted(header: BatchHeader, batch: memoryview) -> bool:
    """For read_uncommitted: no batch is skipped."""
    return False


def add_entry(rows: Rows, entry: memoryview, start: int, end: int, is_aborted: IsAborted) -> int:
    """Add the records of one whole entry with offsets in [start, end) to `rows`. Return the offset after the entry.

    Errors: RecordsError, also for a wrong checksum.
    """
    found = entry_at(entry, 0)
    if found is None:
        raise CorruptBatch(f"{len(entry)} bytes are not a whole entry")
    base_offset, size, magic = found
    if magic == 2:
        return _add_batch(rows, entry, size, start, end, is_aborted)
    if magic not in (0, 1):
        raise CorruptBatch(f"no format has magic {magic}")
    if not verify_message_crc(entry, 0, size):
        raise CorruptBatch(f"the checksum of the message with offset {base_offset} is wrong")
    timestamp_type = _NO_TIMESTAMP_TYPE if magic == 0 else int(parse_message(entry).is_log_append_time)
    rows.add(iter_entry_records(entry[:size]), timestamp_type, start, end)
    return base_offset + 1


def _add_batch(rows: Rows, entry: memoryview, size: int, start: int, end: int, is_aborted: IsAborted) -> int:
    if size < HEADER_SIZE:
        raise CorruptBatch(f"{size} bytes are not a batch")
    header = parse_header(entry)
    if not verify_crc(entry, 0, size):
        raise CorruptBatch(f"the checksum of the batch with base offset {header.base_offset} is wrong")
    aborted = is_aborted(header, entry)  # called for every batch: it may have to see each
    if not header.is_control and not aborted and header.base_offset < end:
        rows.add_batch(entry, header, start, end)
    return header.next_offset
