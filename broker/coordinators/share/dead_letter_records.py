"""The records of dead-letter queues (KIP-1191): their headers, and copies of the original keys and values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from protocol.records.batch import entry_at, parse_header
from protocol.records.builder import BatchBuilder
from protocol.records.compression import Codec
from protocol.records.entries import iter_records
from protocol.records.errors import RecordsError
from protocol.records.record import encode_record

if TYPE_CHECKING:
    from broker.replicas.partition import Partition
    from protocol.records.record import Record

REJECTED = "Offset rejected by client."
EXHAUSTED = "Offset delivery count exceeded the threshold."

#: Bytes of the original log that are read at a time.
_READ_BYTES = 1 << 20
_MAGIC_V2 = 2


class DeadLetters(msgspec.Struct, frozen=True):
    """Adjacent records that go to the queue for the same reason, both offsets included."""

    group_id: str
    topic: str
    partition: int
    first_offset: int
    last_offset: int
    delivery_count: int
    message: str
    #: The records were acquired as one batch, and have had the same states since then.
    is_batch: bool = False

    def headers(self, offset: int) -> tuple[tuple[str, bytes | None], ...]:
        """Return the headers of one record, in Kafka's order."""
        return (
            ("__dlq.errors.topic", self.topic.encode()),
            ("__dlq.errors.partition", b"%d" % self.partition),
            ("__dlq.errors.offset", b"%d" % offset),
            ("__dlq.errors.group", self.group_id.encode()),
            ("__dlq.errors.delivery.count", b"%d" % self.delivery_count),
            ("__dlq.errors.message", self.message.encode()),
        )


class Originals(msgspec.Struct):
    """The original records that were found, by offset. `resolved`: the last offset that this answers for."""

    records: dict[int, Record] = msgspec.field(default_factory=dict)
    resolved: int = -1
    size_bytes: int = 0
    is_full: bool = False


def read_originals(partition: Partition, first: int, last: int, max_bytes: int, *, is_batch: bool = False) -> Originals:
    """Read the originals from `first` to `last`, at most `max_bytes` of them.

    Records that cannot be read get dead letters without key and value, as in Kafka: larger ones, those in compressed
    batches that are larger when they are decompressed, and those before the start of the log: all records, if such a
    one is the first of a batch (`is_batch`), which Kafka reads at once.
    """
    offset = first if is_batch else max(first, partition.log_start_offset)
    found = Originals(resolved=min(offset - 1, last))
    while offset <= last and not found.is_full and found.size_bytes < max_bytes:
        following = _collect(found, _read(partition, offset), offset, last, max_bytes)
        if following <= offset and not found.is_full:
            found.resolved = last
            return found
        offset = max(offset, following)
    return found


def _read(partition: Partition, offset: int) -> bytes:
    """Return whole batches from the one with `offset` on; none if they cannot be read."""
    try:
        part = partition.log.read(offset, _READ_BYTES, partition.high_watermark)
        return part if isinstance(part, bytes) else bytes(part.read(0, len(part)))
    except Exception:  # the log begins behind the offset, or its directory is offline
        return b""


def _collect(found: Originals, data: bytes, offset: int, last: int, max_bytes: int) -> int:
    """Add the records of some batches; return the next offset to read."""
    view = memoryview(data)
    position = 0
    while (entry := entry_at(view, position)) is not None:
        batch_last, size_bytes, magic = entry
        batch = view[position : position + size_bytes]
        position += size_bytes
        is_plain = True
        if magic == _MAGIC_V2:
            header = parse_header(batch)
            batch_last, is_plain = header.last_offset, header.codec == Codec.NONE
        try:
            records = list(iter_records(batch, max_bytes))
        except RecordsError:  # larger than that, or damaged
            offset = max(offset, min(batch_last, last) + 1)
            found.resolved = max(found.resolved, offset - 1)
            continue
        for record in records:
            if record.offset < offset:
                continue
            if record.offset > last:
                return offset
            size = len(encode_record(0, 0, record.key, record.value, record.headers))
            if size <= max_bytes or not is_plain:
                if found.size_bytes + size > max_bytes:
                    found.is_full = True
                    return offset
                found.records[record.offset] = record
                found.size_bytes += size
            offset = record.offset + 1
            found.resolved = record.offset
    return offset


def build_batch(
    letters: DeadLetters, first: int, last: int, originals: Mapping[int, Record], now_ms: int, max_bytes: int
) -> tuple[bytes, int]:
    """Return one uncompressed batch of the dead letters from `first` on, and its last offset.

    It ends at `last` or before it exceeds `max_bytes`, but has at least one record.
    """
    builder = BatchBuilder()
    offset = first
    while True:
        original = originals.get(offset)
        key, value = (None, None) if original is None else (original.key, original.value)
        headers = letters.headers(offset)
        if builder.record_count:
            size = len(encode_record(builder.record_count, 0, key, value, headers))
            if builder.size_bytes + size > max_bytes:
                return builder.build(), offset - 1
        builder.append(now_ms, key, value, headers)
        if offset >= last or builder.size_bytes > max_bytes:
            return builder.build(), offset
        offset += 1
