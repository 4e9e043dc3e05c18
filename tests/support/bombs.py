"""Small batches that decompress to many records."""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Iterator
from functools import cache
from itertools import repeat
from typing import Any

import cramjam

from protocol.records.batch import CRC_START, HEADER_SIZE, LOG_OVERHEAD
from protocol.records.builder import BatchBuilder
from protocol.records.compression import Codec, compress
from protocol.records.crc32c import crc32c
from protocol.records.varint import encode_varint

_PIECE_BYTES = 1 << 20
#: only a key of one byte, with the time and the offset of its batch
SMALL_RECORD = bytes((14, 0, 0, 0, 2, 0x6B, 1, 0))
#: the batch header's latest timestamp is this much later than its records
LATER_MS = 1000
_LENGTH, _SUM, _ATTRIBUTES, _LAST_OFFSET_DELTA, _MAX_TIMESTAMP, _COUNT = 8, 17, 21, 23, 35, 57


def large_record(size: int, codec: Codec) -> bytes:
    """Return a batch of one record without a key, whose value is `size` zeros."""
    value = encode_varint(min(size, (1 << 31) - 1))
    head = b"\0\0\0\x01" + value
    return _batch(codec, _packed(encode_varint(min(len(head) + size + 1, (1 << 31) - 1)) + head, 0, size + 1, codec), 1)


def small_records(size: int, codec: Codec) -> bytes:
    """Return a batch of records of eight bytes, `size` bytes in total, which all have the offset of the first."""
    return _batch(codec, _packed(b"", 1, size, codec), size // len(SMALL_RECORD))


def _batch(codec: Codec, data: bytes, count: int) -> bytes:
    builder = BatchBuilder()
    builder.append(int(time.time() * 1000) - 2 * LATER_MS, None, None)
    batch = bytearray(builder.build()[:HEADER_SIZE] + data)
    (latest,) = struct.unpack_from(">q", batch, _MAX_TIMESTAMP)
    for position, layout, value in (
        (_LENGTH, ">i", len(batch) - LOG_OVERHEAD),
        (_ATTRIBUTES, ">h", codec),
        (_LAST_OFFSET_DELTA, ">i", count - 1),
        (_MAX_TIMESTAMP, ">q", latest + LATER_MS),
        (_COUNT, ">i", count),
    ):
        struct.pack_into(layout, batch, position, value)
    struct.pack_into(">I", batch, _SUM, crc32c(bytes(batch[CRC_START:])))
    return bytes(batch)


@cache
def _packed(head: bytes, small: int, size: int, codec: Codec) -> bytes:
    """Compress `head`, followed by `size` bytes of zeros or of small records, piece by piece."""
    piece = SMALL_RECORD * (_PIECE_BYTES // len(SMALL_RECORD)) if small else bytes(_PIECE_BYTES)
    pieces = [head, *repeat(piece, size // _PIECE_BYTES), piece[: size % _PIECE_BYTES]]
    if codec is Codec.SNAPPY:
        return _snappy(pieces)
    return b"".join(_stream(codec, iter(pieces)))


def _snappy(pieces: list[bytes]) -> bytes:
    """Compress each piece as a block, in the framing of Java's library."""
    blocks = {piece: bytes(cramjam.snappy.compress_raw(piece)) for piece in set(pieces)}
    head = compress(Codec.SNAPPY, b"")
    return head + b"".join(len(blocks[each]).to_bytes(4, "big") + blocks[each] for each in pieces if each)


def _stream(codec: Codec, pieces: Iterator[bytes]) -> Iterator[bytes]:
    if codec is Codec.GZIP:
        gzip = zlib.compressobj(wbits=31)
        yield from (gzip.compress(piece) for piece in pieces)
        yield gzip.flush()
        return
    stream: Any = (
        cramjam.zstd.Compressor()
        if codec is Codec.ZSTD
        else cramjam.lz4.Compressor(content_checksum=False, block_linked=False)
    )
    for piece in pieces:
        stream.compress(piece)
        yield bytes(stream.flush())
    yield bytes(stream.finish())
