"""Check the batches that a leader sends before a replica appends them as they are."""

from __future__ import annotations

from protocol.records.batch import CRC_START
from protocol.records.crc32c import crc32c
from protocol.records.errors import CorruptBatch
from protocol.records.legacy import verify_message_crc
from storage.errors import CorruptRecords, UnexpectedAppendOffset
from storage.log_config import INT_MAX, LONG_MAX
from storage.segment.scan import Entry, parse_entry


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
    position = 0
    try:
        while (entry := parse_entry(records, position, position)) is not None:
            following = position + entry.size_bytes
            header = entry.header
            if following > len(records) or (header is not None and header.leader_epoch > max_epoch):
                break
            if not end_offset <= entry.base_offset <= entry.last_offset < LONG_MAX:
                raise UnexpectedAppendOffset(entry.base_offset, end_offset)
            if min_epoch is not None and header is not None:
                if header.leader_epoch < min_epoch:
                    raise CorruptRecords(
                        f"The batch of epoch {header.leader_epoch} at offset {entry.base_offset} does not follow epoch "
                        f"{min_epoch}."
                    )
                min_epoch = header.leader_epoch
            if header is None:
                if not verify_message_crc(records, position, entry.size_bytes):
                    raise CorruptRecords(f"The message at offset {entry.base_offset} has a wrong checksum.")
            elif crc32c(records[position + CRC_START : following]) != header.crc:
                raise CorruptRecords(f"The batch at offset {entry.base_offset} has a wrong checksum.")
            entries.append(entry)
            end_offset, position = entry.last_offset + 1, following
    except CorruptBatch as error:
        raise CorruptRecords(str(error)) from None
    return entries
