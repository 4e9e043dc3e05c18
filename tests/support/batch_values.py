"""Batches as values that two brokers have in common: all bytes, or those that the broker may not choose."""

from __future__ import annotations

from dataclasses import dataclass
from struct import pack_into

from protocol.records.batch import TIMESTAMP_TYPE_BIT, iter_batches
from protocol.records.record import iter_batch_records


@dataclass(frozen=True, slots=True)
class BatchValue:
    """`content` is the whole batch; for LogAppendTime, the parts that do not depend on the clock."""

    base_offset: int
    next_offset: int
    attributes: int
    content: object

    def __repr__(self) -> str:
        size = len(self.content) if isinstance(self.content, bytes) else "records"
        offsets = f"{self.base_offset}..{self.next_offset - 1}"
        return f"<{offsets} attributes {self.attributes:#x} {size} {hash(self.content):x}>"


def comparable_batches(data: bytes, *, reencoded: bool = False) -> list[BatchValue]:
    """Return the whole batches in `data`. `reencoded`: the broker compressed them, and compressors differ."""
    found = []
    for position, header in iter_batches(data):
        batch = data[position : position + header.size_bytes]
        content: object = batch
        stamped = header.attributes & TIMESTAMP_TYPE_BIT
        if reencoded or stamped:
            records = [
                (r.offset, None if stamped else r.timestamp, _bytes(r.key), _bytes(r.value), tuple(r.headers))
                for r in iter_batch_records(memoryview(batch), header)
            ]
            producer = (header.producer_id, header.producer_epoch, header.base_sequence)
            content = (header.leader_epoch, *producer, tuple(records))
        found.append(BatchValue(header.base_offset, header.next_offset, header.attributes, content))
    return found


def _bytes(value: bytes | memoryview | None) -> bytes | None:
    return None if value is None else bytes(value)


def patch_in_place(buffer: bytearray, position: int, base_offset: int, leader_epoch: int) -> None:
    """Give the batch at `position` its base offset and leader epoch, which its checksum does not cover."""
    pack_into(">q", buffer, position, base_offset)
    pack_into(">i", buffer, position + 12, leader_epoch)
