"""Batches of a segment, a page at a time, and one batch with all its bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from console.errors import NotFound
from console.logs.segment import Segment
from protocol.records.batch import CODEC_MASK, HEADER_SIZE, BatchHeader, parse_header
from protocol.records.compression import Codec, decompress
from tools.data.log_reader import LogReader, RawEntry
from tools.errors import DumpFailed

#: Larger batches, or larger uncompressed records, are not opened.
MOST_BYTES = 16 << 20


class BatchRow(NamedTuple):
    """The header of a batch, or of a message in a format before batches."""

    position: int
    size_bytes: int
    magic: int
    base_offset: int
    last_offset: int
    record_count: int
    codec: str
    max_timestamp: int
    leader_epoch: int
    producer_id: int
    is_transactional: bool
    is_control: bool


@dataclass(frozen=True, slots=True)
class BatchPage:
    """Consecutive batches. At the segment's end `next_position` is None; `left_over` bytes form no batch."""

    rows: tuple[BatchRow, ...]
    next_position: int | None
    left_over: int


def read_batches(segment: Segment, position: int, limit: int) -> BatchPage:
    """Return the batches from `position` on.

    A position inside a batch gives NotFound, wrong rows or none: positions are not checked against the batches' bounds.
    """
    rows: list[BatchRow] = []
    with _open(segment) as reader:
        try:
            for entry in reader.entries(position):
                if len(rows) == limit:
                    return BatchPage(tuple(rows), entry.position, 0)
                rows.append(_row(entry))
        except DumpFailed as error:
            if not rows:
                raise NotFound(str(error)) from None
        end = rows[-1].position + rows[-1].size_bytes if rows else position
        return BatchPage(tuple(rows), None, max(0, reader.size_bytes - end))


def _open(segment: Segment) -> LogReader:
    try:
        return LogReader(segment.path("log"))
    except FileNotFoundError:
        raise NotFound("the segment has been removed since") from None


def _row(entry: RawEntry) -> BatchRow:
    if entry.magic < 2 or len(entry.head) < HEADER_SIZE:
        codec = codec_name(entry.head[17] & CODEC_MASK)
        end = entry.offset
        return BatchRow(entry.position, entry.size_bytes, entry.magic, end, end, 1, codec, -1, -1, -1, False, False)
    header = parse_header(entry.head)
    return BatchRow(
        entry.position,
        entry.size_bytes,
        entry.magic,
        header.base_offset,
        header.last_offset,
        header.record_count,
        codec_name(header.codec),
        header.max_timestamp,
        header.leader_epoch,
        header.producer_id,
        header.is_transactional,
        header.is_control,
    )


def codec_name(codec: int) -> str:
    """Return none, gzip, snappy, lz4, zstd, or the number of an unknown codec."""
    return Codec(codec).name.lower() if codec in {*Codec} else str(codec)


@dataclass(frozen=True, slots=True)
class WholeBatch:
    """All bytes of a v2 batch: `data` as in the file, `records` uncompressed."""

    position: int
    data: bytes
    header: BatchHeader
    crc_is_right: bool
    records: bytes
    #: The position of byte 0 of `records` in the file; None if they are compressed there.
    records_position: int | None


def read_batch(segment: Segment, position: int) -> WholeBatch:
    """Return the batch at `position`. Raises NotFound if there is none or it is too large; RecordsError if damaged."""
    with _open(segment) as reader:
        try:
            entry = next(iter(reader.entries(position)), None)
        except DumpFailed as error:
            raise NotFound(str(error)) from None
        if entry is None:
            raise NotFound(f"no batch begins at byte {position}")
        if entry.magic != 2 or len(entry.head) < HEADER_SIZE:
            raise NotFound(f"the entry at byte {position} is not a whole record batch of magic 2")
        if entry.size_bytes > MOST_BYTES:
            raise NotFound(f"the batch has {entry.size_bytes} bytes: the console shows at most {MOST_BYTES}")
        header = parse_header(entry.head)
        _, is_right = reader.checksum(entry)
        data = bytes(reader.whole(entry))
    if header.codec == Codec.NONE:
        return WholeBatch(position, data, header, is_right, data[HEADER_SIZE:], position + HEADER_SIZE)
    records = decompress(header.codec, memoryview(data)[HEADER_SIZE:], MOST_BYTES)
    return WholeBatch(position, data, header, is_right, records, None)
