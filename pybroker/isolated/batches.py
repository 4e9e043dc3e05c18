"""Batches of records on their way to a broker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from protocol.error_codes import ErrorCode
from protocol.records.builder import BatchBuilder
from protocol.records.compression import Codec
from protocol.records.record import Headers

#: The most bytes of a batch of several records, before compression: below the default of max.message.bytes.
BATCH_BYTES = 512 << 10
#: Errors of a topic that does not accept batches of this size: max.message.bytes, segment.bytes.
TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
_SEQUENCE_MASK = 0x7FFFFFFF


class UnsentRecord(NamedTuple):
    """A record without topic, partition and offset."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def size_bytes(self) -> int:
        """Return its approximate size in a batch, in bytes."""
        named = sum(len(name) + len(value or b"") + 10 for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + named + 20


class Unsent:
    """Records of a partition to be sent together, and their approximate size in bytes."""

    __slots__ = ("records", "size_bytes")

    def __init__(self) -> None:
        self.records: list[UnsentRecord] = []
        self.size_bytes = 0

    def append(self, record: UnsentRecord) -> None:
        self.records.append(record)
        self.size_bytes += record.size_bytes

    def drop(self, count: int) -> None:
        """Remove the first `count` records, or all if there are fewer."""
        self.size_bytes -= size_of(self.records[:count])
        del self.records[:count]


def size_of(records: Sequence[UnsentRecord]) -> int:
    """Return their approximate size in a batch, in bytes."""
    return sum(record.size_bytes for record in records)


def build_batch(records: Sequence[UnsentRecord], codec: Codec, producer: tuple[int, int], sequence: int) -> bytes:
    """Build a batch of an idempotent producer (id, epoch). `sequence` is the first record's, before it wraps."""
    batch = BatchBuilder(
        0, codec, producer_id=producer[0], producer_epoch=producer[1], base_sequence=sequence & _SEQUENCE_MASK
    )
    for record in records:
        batch.append(*record)
    return batch.build()
