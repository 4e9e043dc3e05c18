"""The batches of one partition at several replicas, compared by their last offsets and checksums."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from struct import Struct
from typing import NamedTuple

#: base offset, size, leader epoch (or a checksum, in formats 0 and 1), magic
_BEGIN = Struct(">qiIb")
_BEFORE_SIZE = 12  # bytes that the size does not count
_CHECKSUM_AND_DELTA = Struct(">Ihi")
_CHECKSUM_AT = 17
_FIRST_WITH_BATCHES = 2
#: The least size of a message, and of a batch: after a smaller one, which is damaged, nothing can be found.
_LEAST_SIZES = (14, 49)


class Batch(NamedTuple):
    """The last offset of a batch, and its checksum, which covers all of its records."""

    last_offset: int
    checksum: int


class Differs(NamedTuple):
    """Two replicas that differ. `ends` are the last offsets of their batches, which are equal if only checksums differ.

    The texts are those of kafka-replica-verification.
    """

    replicas: tuple[int, int]
    batches: tuple[Batch, Batch]

    @property
    def in_offsets(self) -> bool:
        """Whether the batches end at different offsets, so that later ones cannot be compared."""
        first, second = self.batches
        return first.last_offset != second.last_offset

    def text(self, partition: str) -> str:
        """Return the difference in words."""
        first, second = self.batches
        one, other = self.replicas
        if self.in_offsets:
            ends = f"replica {one}'s offset {first.last_offset} doesn't match replica {other}'s offset"
            return f"partition {partition}: {ends} {second.last_offset}"
        return (
            f"partition {partition} has unmatched checksum at offset {second.last_offset}; "
            f"replica {one}'s checksum {first.checksum}; replica {other}'s checksum {second.checksum}"
        )


def batches_in(records: bytes | memoryview, first_offset: int) -> Iterator[Batch]:
    """Yield the whole batches that end at or after an offset: the first one of a response may begin before it."""
    position = 0
    while position + _BEGIN.size <= len(records):
        base_offset, size, checksum, magic = _BEGIN.unpack_from(records, position)
        end = position + _BEFORE_SIZE + size
        if size < _LEAST_SIZES[magic >= _FIRST_WITH_BATCHES] or end > len(records):
            return
        last_offset = base_offset
        if magic >= _FIRST_WITH_BATCHES:
            checksum, _, delta = _CHECKSUM_AND_DELTA.unpack_from(records, position + _CHECKSUM_AT)
            last_offset += delta
        if last_offset >= first_offset:
            yield Batch(last_offset, checksum)
        position = end


def compare(
    records: Mapping[int, bytes | memoryview], high_watermarks: Mapping[int, int], offset: int
) -> tuple[int, list[Differs]]:
    """Compare what replicas have from an offset on, up to the least high watermark and as far as all have answered.

    Return the offset at which to go on, and the differences. It ends at batches of different offsets.
    """
    ids = sorted(records)
    found: list[Differs] = []
    for batches in zip(*(batches_in(records[each], offset) for each in ids), strict=False):
        if any(batch.last_offset >= high_watermarks[each] for each, batch in zip(ids, batches, strict=True)):
            break
        first = batches[0]
        different = [
            Differs((ids[0], each), (first, batch)) for each, batch in zip(ids, batches, strict=True) if batch != first
        ]
        found += different
        if any(each.in_offsets for each in different):
            break
        offset = first.last_offset + 1
    return offset, found
