"""Reading a shard's state out of the batches of its partition, of any message format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from coordinator.shard import NO_PRODUCER_ID, Shard, UnknownRecord
from protocol.records.batch import (
    CONTROL_BIT,
    HEADER_SIZE,
    TRANSACTIONAL_BIT,
    BatchHeader,
    entry_at,
    parse_header,
    verify_crc,
)
from protocol.records.control import ControlType, control_type
from protocol.records.errors import CorruptBatch, RecordsError, WrongChecksum
from protocol.records.record import Record, iter_batch_records, iter_records

_MAGIC_V2 = 2
#: No batch of a segment lies further behind another.
_FURTHEST = 2**31

#: Told of a batch that was left out: its offset, its position, and why.
OnDamage = Callable[[int, int, RecordsError], None]


def replay_batches(
    shard: Shard[Any], data: bytes, from_offset: int, on_damage: OnDamage = lambda *_: None
) -> Iterator[tuple[int, int]]:
    """Replay the whole batches in `data`, from an offset on; after each gives the offset that follows it, and its end.

    So a caller can pause between batches. Records that no known Kafka wrote are counted in `shard.unknown_records` and
    left alone: the log keeps them. A batch with a wrong checksum, with offsets that do not go on, or with records that
    cannot be read, is left out as a whole and told. Raises what protocol.records raises for bytes that are no batches.
    """
    view = memoryview(data)
    position = 0
    while (entry := entry_at(view, position)) is not None:
        offset, size_bytes, magic = entry
        batch = view[position : position + size_bytes]
        position += size_bytes
        next_offset = offset + 1  # of a wrapper it is the last one's
        replay, producer_id = replay_record, NO_PRODUCER_ID
        try:
            if magic == _MAGIC_V2:
                header = _checked_header(batch)
                records = list(iter_batch_records(batch, header))
                attributes = header.attributes
                if attributes & CONTROL_BIT:
                    replay = replay_marker
                if attributes & TRANSACTIONAL_BIT:
                    producer_id = header.producer_id
                next_offset = header.next_offset
            else:  # from before transactions
                records = list(iter_records(batch))
            if next_offset <= from_offset:
                raise CorruptBatch("its offsets lie before those that come before it")
        except RecordsError as error:
            on_damage(offset, position - size_bytes, error)
            yield _offset_behind(view, position, batch, offset, magic), position
            continue
        for record in records:
            if record.offset >= from_offset:  # its batch may begin before what is wanted
                replay(shard, record, producer_id)
        yield next_offset, position


def _checked_header(batch: memoryview) -> BatchHeader:
    if not (len(batch) >= HEADER_SIZE and verify_crc(batch, 0, len(batch))):
        raise WrongChecksum("its checksum is wrong")
    return parse_header(batch)


def _offset_behind(view: memoryview, position: int, batch: memoryview, offset: int, magic: int) -> int:
    """Where a damaged batch ends: the next one, at `position`, is believed rather than itself. At the end of what was
    read the smaller of what its header says twice: then it is met again, rather than what is behind it missed.

    CorruptBatch: what lies at `position` does not go on from it, so its length may be what is damaged.
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


def replay_record(shard: Shard[Any], record: Record, producer_id: int) -> None:
    """Apply a record; one that no known Kafka wrote is counted."""
    try:
        shard.replay(shard.parse(record.key, record.value), record.offset, producer_id)
    except UnknownRecord as error:
        shard.unknown_records[error.reason] += 1


def replay_marker(shard: Shard[Any], record: Record, producer_id: int) -> None:
    """Apply the end of a transaction; other control records say nothing to coordinators."""
    kind = control_type(record)
    if kind in (ControlType.COMMIT, ControlType.ABORT):
        shard.replay_transaction_end(producer_id, kind is ControlType.COMMIT)
