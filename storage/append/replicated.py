"""Check the batches that a leader sends before a replica appends them as they are."""

from __future__ import annotations

from protocol.records.batch import CRC_START, HEADER, HEADER_SIZE, LOG_OVERHEAD, MAGIC_OFFSET, BatchHeader
from protocol.records.crc32c import crc32c
from protocol.records.errors import CorruptBatch
from protocol.records.legacy import verify_message_crc
from storage.errors import CorruptRecords, UnexpectedAppendOffset
from storage.log_config import INT_MAX, LONG_MAX
from storage.segment.scan import Entry, parse_entry

_MAGIC = 2
_UNPACK_HEADER = HEADER.unpack_from
_new_tuple = tuple.__new__
#: Indexes of fields in a BatchHeader.
_LEADER_EPOCH, _CRC = BatchHeader._fields.index("leader_epoch"), BatchHeader._fields.index("crc")


def checked_entries(
    records: memoryview, end_offset: int, max_epoch: int = INT_MAX, min_epoch: int | None = None
) -> list[Entry]:
    """Return the whole batches and old messages in `records`, each with its position in it.

    A partial one at the end is left out: a Fetch response may cut the last batch. A batch of an epoch above `max_epoch`
    and those behind it are left out, too: they come again from the leader of that epoch (KAFKA-18723).

    With `min_epoch`, epochs begin there and never fall: a batch of an earlier one does not follow those before it.

    Raises CorruptRecords for damaged bytes, and UnexpectedAppendOffset for offsets below `end_offset` or out of order.
    """
    entries: list[Entry] = []
    position, available = 0, len(records)
    try:
        while position < available and (entry := _entry_at(records, position, available)) is not None:
            _, size, base_offset, last_offset, _, _, header = entry
            following = position + size
            if following > available:
                break
            if header is not None and header[_LEADER_EPOCH] > max_epoch:
                break
            if not end_offset <= base_offset <= last_offset < LONG_MAX:
                raise UnexpectedAppendOffset(base_offset, end_offset)
            if header is None:
                if not verify_message_crc(records, position, size):
                    raise CorruptRecords(f"The message at offset {base_offset} has a wrong checksum.")
            else:
                if min_epoch is not None:
                    epoch = header[_LEADER_EPOCH]
                    if epoch < min_epoch:
                        raise CorruptRecords(
                            f"The batch of epoch {epoch} at offset {base_offset} does not follow epoch {min_epoch}."
                        )
                    min_epoch = epoch
                if crc32c(records[position + CRC_START : following]) != header[_CRC]:
                    raise CorruptRecords(f"The batch at offset {base_offset} has a wrong checksum.")
            entries.append(entry)
            end_offset, position = last_offset + 1, following
    except CorruptBatch as error:
        raise CorruptRecords(str(error)) from None
    return entries


def _entry_at(records: memoryview, position: int, available: int) -> Entry | None:
    """Do `parse_entry`, which costs twice as much, for a batch v2."""
    if available - position < HEADER_SIZE or records[position + MAGIC_OFFSET] != _MAGIC:
        return parse_entry(records, position, position)
    fields = _UNPACK_HEADER(records, position)
    base_offset, length, _, _, _, _, delta, _, max_timestamp, _, _, _, _ = fields
    if length < HEADER_SIZE - LOG_OVERHEAD:
        return parse_entry(records, position, position)  # it raises the error
    header = _new_tuple(BatchHeader, fields)
    return _new_tuple(
        Entry, (position, length + LOG_OVERHEAD, base_offset, base_offset + delta, max_timestamp, _MAGIC, header)
    )
