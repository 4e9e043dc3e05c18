"""Reading a shard's state out of the batches of its partition, of any message format."""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.group.records import UnknownRecord, parse_record
from coordinator.group.shard import NO_PRODUCER_ID, GroupShard
from protocol.records.batch import entry_at, parse_header
from protocol.records.control import ControlType, control_type
from protocol.records.record import Record, iter_batch_records, iter_records


def replay_batches(shard: GroupShard, data: bytes, from_offset: int) -> Iterator[int]:
    """Replay the whole batches in `data`, from an offset on; after each gives the offset that follows it.

    So a caller can pause between batches. Records that no known Kafka wrote are counted in `shard.unknown_records` and
    left alone: the log keeps them. Raises what protocol.records raises for bytes that are no batches.
    """
    view = memoryview(data)
    position = 0
    while (entry := entry_at(view, position)) is not None:
        offset, size_bytes, magic = entry
        batch = view[position : position + size_bytes]
        position += size_bytes
        if magic < 2:  # from before transactions
            for record in iter_records(batch):
                replay_record(shard, record, from_offset, NO_PRODUCER_ID)
            yield offset + 1  # of a wrapper it is the last one's
            continue
        header = parse_header(batch)
        if header.is_control:
            for record in iter_batch_records(batch, header):
                replay_marker(shard, record, from_offset, header.producer_id)
        else:
            producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
            for record in iter_batch_records(batch, header):
                replay_record(shard, record, from_offset, producer_id)
        yield header.next_offset


def replay_record(shard: GroupShard, record: Record, from_offset: int, producer_id: int) -> None:
    """Apply one record; those before `from_offset` stand in a batch that reaches beyond it, and are done already."""
    if record.offset < from_offset:
        return
    try:
        shard.replay(parse_record(record.key, record.value), record.offset, producer_id)
    except UnknownRecord as error:
        shard.unknown_records[error.reason] += 1


def replay_marker(shard: GroupShard, record: Record, from_offset: int, producer_id: int) -> None:
    """Apply the end of a transaction; other control records say nothing to groups."""
    if record.offset >= from_offset:
        kind = control_type(record)
        if kind in (ControlType.COMMIT, ControlType.ABORT):
            shard.replay_transaction_end(producer_id, kind is ControlType.COMMIT)
