"""Reading a shard's state out of the batches of its partition, of any message format."""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.group.records import UnknownRecord, parse_record
from coordinator.group.shard import NO_PRODUCER_ID, GroupShard
from protocol.records.batch import entry_at, parse_header
from protocol.records.control import ControlType, control_type
from protocol.records.record import Record, iter_records


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
            replay, producer_id = replay_record, NO_PRODUCER_ID
            next_offset = offset + 1  # of a wrapper it is the last one's
        else:
            header = parse_header(batch)
            replay = replay_marker if header.is_control else replay_record
            producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
            next_offset = header.next_offset
        for record in iter_records(batch):
            if record.offset >= from_offset:  # its batch may begin before what is wanted
                replay(shard, record, producer_id)
        yield next_offset


def replay_record(shard: GroupShard, record: Record, producer_id: int) -> None:
    """Apply a record; one that no known Kafka wrote is counted."""
    try:
        shard.replay(parse_record(record.key, record.value), record.offset, producer_id)
    except UnknownRecord as error:
        shard.unknown_records[error.reason] += 1


def replay_marker(shard: GroupShard, record: Record, producer_id: int) -> None:
    """Apply the end of a transaction; other control records say nothing to groups."""
    kind = control_type(record)
    if kind in (ControlType.COMMIT, ControlType.ABORT):
        shard.replay_transaction_end(producer_id, kind is ControlType.COMMIT)
