"""Load a shard's state from the batches of its partition, of any message format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from coordinator.shard import Shard, UnknownRecord
from protocol.records.batch import (
    CONTROL_BIT,
    CRC_START,
    HEADER_SIZE,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    entry_at,
    parse_header,
)
from protocol.records.control import ControlType, control_type
from protocol.records.crc32c import crc32c
from protocol.records.entries import iter_records
from protocol.records.errors import CorruptBatch, RecordsError, WrongChecksum
from protocol.records.record import KeyAndValue, Record, keys_and_values

_MAGIC_V2 = 2
#: The greatest distance between the offsets of two batches in a segment.
_FURTHEST = 2**31

#: The number of keys whose skimmed records are replayed without a pause.
_MOST_SKIMMED = 512

#: Called for each batch that is skipped, with its offset, its position, and the reason.
OnDamage = Callable[[int, int, RecordsError], None]


def replay_batches(
    shard: Shard[Any], data: bytes, from_offset: int, on_damage: OnDamage = lambda *_: None
) -> Iterator[tuple[int, int]]:
    """Replay the whole batches in `data` from an offset on.

    After each batch, or run of small ones, yield the next offset and the end position.

    A caller can pause between two batches. Records that were skimmed may be replayed with later batches. Records of
    unknown types are counted in `shard.unknown_records` and ignored; the log keeps them. A batch with a wrong checksum,
    with offsets that go backwards, or with unreadable records is skipped as a whole and reported to `on_damage`. Raises
    the errors of protocol.records for bytes that are no batches.
    """
    view = memoryview(data)
    position = 0
    skim = shard.skim(data)
    while True:
        taken = skim.take(position, from_offset)
        if taken is None or len(skim) >= _MOST_SKIMMED:
            replay_records(shard, skim.records(), NO_PRODUCER_ID)
        if taken is not None:
            position = taken[1]
            yield taken
            continue
        entry = entry_at(view, position)
        if entry is None:
            return
        offset, size_bytes, magic = entry
        start, position = position, position + size_bytes
        next_offset = offset + 1  # the offset of a wrapper message is that of its last message
        replay, producer_id = replay_records, NO_PRODUCER_ID
        try:
            if magic == _MAGIC_V2:
                header = _checked_header(view, start, position)
                records = keys_and_values(data, start, header)
                attributes = header.attributes
                if attributes & CONTROL_BIT:
                    replay = replay_markers
                if attributes & TRANSACTIONAL_BIT:
                    producer_id = header.producer_id
                next_offset = header.next_offset
            else:  # a message format without transactions
                records = [(record.offset, record.key, record.value) for record in iter_records(view[start:position])]
            if next_offset <= from_offset:
                raise CorruptBatch("its offsets are lower than those of the batch before it")
        except RecordsError as error:
            on_damage(offset, start, error)
            yield _offset_behind(view, position, view[start:position], offset, magic), position
            continue
        if records and records[0][0] < from_offset:  # the batch begins before `from_offset`
            records = [record for record in records if record[0] >= from_offset]
        replay(shard, records, producer_id)
        yield next_offset, position


def _checked_header(view: memoryview, start: int, end: int) -> BatchHeader:
    if end - start >= HEADER_SIZE:
        header = parse_header(view, start)
        if header.crc == crc32c(view[start + CRC_START : end]):
            return header
    raise WrongChecksum("its checksum is wrong")


def _offset_behind(view: memoryview, position: int, batch: memoryview, offset: int, magic: int) -> int:
    """Return the next offset after a damaged batch, from the header of the batch at `position`.

    At the end of `data` there is no next batch. Then the smaller of the two offsets in the damaged batch's header is
    returned: reading the batch twice is better than skipping the one after it. Raises CorruptBatch if the batch at
    `position` does not continue from this one, because then the length of this one may be what is damaged.
    """
    following = entry_at(view, position)
    if following is not None:
        if not offset < following[0] <= offset + _FURTHEST or following[2] > _MAGIC_V2:
            raise CorruptBatch(f"no batch follows the damaged one of offset {offset}")
        return following[0]
    if magic != _MAGIC_V2 or len(batch) < HEADER_SIZE:
        return offset + 1
    header = parse_header(batch)
    return offset + max(1, min(header.next_offset - offset, header.record_count))


def replay_records(shard: Shard[Any], records: list[KeyAndValue], producer_id: int) -> None:
    """Apply records; count those of unknown types."""
    parse, replay = shard.parse, shard.replay
    for offset, key, value in records:
        try:
            replay(parse(key, value), offset, producer_id)
        except UnknownRecord as error:
            shard.unknown_records[error.reason] += 1


def replay_markers(shard: Shard[Any], records: list[KeyAndValue], producer_id: int) -> None:
    """Apply the markers that end transactions. Coordinators ignore other control records."""
    for offset, key, value in records:
        kind = control_type(Record(offset, NO_TIMESTAMP, key, value))
        if kind in (ControlType.COMMIT, ControlType.ABORT):
            shard.replay_transaction_end(producer_id, kind is ControlType.COMMIT)
