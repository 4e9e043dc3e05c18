"""The header of a record batch v2 (magic 2, KIP-98), and iteration over batches without decoding their records.

    baseOffset int64 | batchLength int32 | partitionLeaderEpoch int32 | magic int8 | crc uint32 | attributes int16 |
    lastOffsetDelta int32 | baseTimestamp int64 | maxTimestamp int64 | producerId int64 | producerEpoch int16 |
    baseSequence int32 | recordCount int32 | records ...                                  61 bytes, big-endian

batchLength counts the bytes from partitionLeaderEpoch on. The checksum covers the bytes after it. So a broker can
overwrite base offset, length, leader epoch and magic on append without a new checksum.

attributes: bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon. With the delete horizon bit,
baseTimestamp is the time from which tombstones and markers in the batch may be removed (KIP-534).

Only impossible lengths are rejected here; the rules for appends are in `storage`.
"""

from collections.abc import Iterator
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import NamedTuple

from protocol.records.buffer import Buffer
from protocol.records.crc32c import crc32c
from protocol.records.errors import CorruptBatch

HEADER_SIZE = 61
#: Bytes of base offset and length, which `batch_length` does not count. The same in every format.
LOG_OVERHEAD = 12
#: The position of the magic byte, in every format, and its value in this one.
MAGIC_OFFSET = 16
_MAGIC = 2
#: The length of the smallest entry of any format: a v0 message without key and value has 14 bytes after its length.
MIN_ENTRY_LENGTH = 14
#: The first byte that the checksum covers: the attributes.
CRC_START = 21

CODEC_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
NO_LEADER_EPOCH = -1

#: Values of `BatchHeader.timestamp_type`.
CREATE_TIME = 0
LOG_APPEND_TIME = 1

HEADER = Struct(">qiibIhiqqqhii")
#: The header in two parts: up to the checksum, and the part that the checksum covers together with the records.
_UNSUMMED, _SUMMED = Struct(">qiibI"), Struct(">hiqqqhii")
_UNPACK_HEADER = HEADER.unpack_from
_NEW_TUPLE = tuple.__new__
_ENTRY_START = Struct(">qi4xb")
_MAX_TIMESTAMP = Struct(">q")
_MAX_TIMESTAMP_AT = 35
_CRC = Struct(">I")


class BatchHeader(NamedTuple):
    """The thirteen fields in wire order; a tuple, because headers are created and read more often than any other
    object.
    """

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The size of the whole batch, including the header."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record, wrapping from 2147483647 to 0; -1 without sequence numbers."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return advance_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def codec(self) -> int:
        """The compression id, which may be unknown (see `compression.Codec`)."""
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> int:
        return LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_BIT else CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def delete_horizon(self) -> int | None:
        """The time in ms from which tombstones and markers in the batch may be dropped, or None."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None


def advance_sequence(sequence: int, count: int) -> int:
    """Return `sequence` plus `count`. Sequence numbers have 31 bits and wrap to 0."""
    return (sequence + count) & 0x7FFFFFFF


def parse_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Return the batch header at `position`. Checks no field.

    Raises CorruptBatch if fewer than 61 bytes are left.
    """
    try:
        return _NEW_TUPLE(BatchHeader, _UNPACK_HEADER(buffer, position))
    except StructError:
        raise CorruptBatch(f"{len(buffer) - position} bytes are too short for a batch header") from None


def is_transactional(records: Buffer | None) -> bool:
    """Return whether the first batch is complete and transactional."""
    if records is None or len(records) < HEADER_SIZE or records[MAGIC_OFFSET] != _MAGIC:
        return False
    header = parse_header(records)
    return header.is_transactional and header.size_bytes <= len(records)


def encode_batch(header: BatchHeader, records: Buffer) -> bytes:
    """Return a whole batch: the header with its length and checksum, and `records` (compressed if the header has a
    codec).
    """
    base_offset, _, leader_epoch, magic, _, *rest = header
    summed = _SUMMED.pack(*rest) + records
    length = HEADER_SIZE - LOG_OVERHEAD + len(records)
    return _UNSUMMED.pack(base_offset, length, leader_epoch, magic, crc32c(summed)) + summed


def plain_batch(records: bytes, count: int, timestamp: int) -> bytearray:
    """Return an uncompressed batch without a producer of `count` encoded records, all with `timestamp` (ms).

    The result is writable, so a log can write its offset into it.
    """
    no_producer = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)
    summed = _SUMMED.pack(0, count - 1, timestamp, timestamp, *no_producer, count) + records
    length = HEADER_SIZE - LOG_OVERHEAD + len(records)
    return bytearray(_UNSUMMED.pack(0, length, NO_LEADER_EPOCH, 2, crc32c(summed)) + summed)


def iter_batches(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of each whole v2 batch from `position` on.

    An incomplete batch at the end is skipped, as Kafka's own readers do. Raises CorruptBatch for an impossible length,
    and at an entry of an older format; `entry_at` supports those too.
    """
    end = len(buffer)
    while position + HEADER_SIZE <= end:
        header = _NEW_TUPLE(BatchHeader, _UNPACK_HEADER(buffer, position))
        size = header.batch_length + LOG_OVERHEAD
        if size < HEADER_SIZE:
            raise CorruptBatch(f"batch length {header.batch_length} at byte {position} is below the minimum")
        if header.magic != 2:
            raise CorruptBatch(f"magic {header.magic} at byte {position} is not 2")
        if position + size > end:
            return
        yield position, header
        position += size


def entry_at(buffer: Buffer, position: int) -> tuple[int, int, int] | None:
    """Return (base offset, size in bytes, magic) of the entry of any format at `position`; None if it is incomplete.

    Raises CorruptBatch for an impossible length.
    """
    if position + MAGIC_OFFSET + 1 > len(buffer):
        return None
    offset, length, magic = _ENTRY_START.unpack_from(buffer, position)
    if length < MIN_ENTRY_LENGTH:
        raise CorruptBatch(f"length {length} at byte {position} is below the minimum")
    size = length + LOG_OVERHEAD
    return None if position + size > len(buffer) else (offset, size, magic)


def compute_crc(buffer: Buffer, position: int, size: int) -> int:
    """Return the correct checksum of the batch of `size` bytes at `position`."""
    return crc32c(memoryview(buffer)[position + CRC_START : position + size])


def verify_crc(buffer: Buffer, position: int, size: int) -> bool:
    """Return whether the checksum of the batch of `size` bytes at `position` is correct."""
    view = memoryview(buffer)
    stored: int = _CRC.unpack_from(view, position + MAGIC_OFFSET + 1)[0]
    return crc32c(view[position + CRC_START : position + size]) == stored


def patch_timestamp(
    buffer: bytearray | memoryview, position: int, size: int, timestamp_type: int, max_timestamp: int
) -> None:
    """Set the timestamp type, the max timestamp and the checksum of a batch, as LogAppendTime requires."""
    attributes = int.from_bytes(buffer[position + CRC_START : position + CRC_START + 2], "big")
    attributes = attributes & ~TIMESTAMP_TYPE_BIT | (TIMESTAMP_TYPE_BIT if timestamp_type else 0)
    buffer[position + CRC_START : position + CRC_START + 2] = attributes.to_bytes(2, "big")
    _MAX_TIMESTAMP.pack_into(buffer, position + _MAX_TIMESTAMP_AT, max_timestamp)
    _CRC.pack_into(buffer, position + MAGIC_OFFSET + 1, compute_crc(buffer, position, size))
