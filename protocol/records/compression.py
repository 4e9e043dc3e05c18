"""The five codecs of record batches, with a limit for the output so that a small input cannot fill the memory.

gzip (1), lz4 frames (3) and zstd (4) are the standard formats. snappy (2) is its block format in the framing of Java's
xerial library; bare blocks, which some clients have sent, are read too. Sizes that the compressed bytes declare are
only hints: the output buffer is the limit. Bytes after the end of a stream are handled as in Apache Kafka's readers:
ignored after an lz4 frame, and after gzip and snappy unless they are another stream.
"""

import zlib
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from typing import Any

import cramjam

from protocol.records.buffer import Buffer
from protocol.records.errors import CorruptBatch, TooLarge, UnsupportedCodec
from protocol.records.lz4_frame import USUAL_BLOCK_SIZE, first_frame_size, frame_of_block, only_block

#: The default limit, above what the default request limit (100 MiB) can carry uncompressed.
DEFAULT_MAX_SIZE = 256 << 20

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + (1).to_bytes(4, "big") + (1).to_bytes(4, "big")
#: Uncompressed bytes per snappy block; xerial's default.
_XERIAL_BLOCK_SIZE = 32 << 10

_GZIP_MAGIC = b"\x1f\x8b\x08"
#: Java does not look for another stream in this many bytes or fewer: a trailer of 8 and an empty stream of 18.
_GZIP_LEAST = 18
#: Bytes per zlib call. zlib copies the bytes after the end of a stream, and streams may be very short.
_GZIP_PIECE = 4096
#: A zlib parameter: gzip header and trailer, any window size.
_GZIP_WINDOW = 31

#: Kafka's default levels (KIP-390): gzip -1 is zlib's level 6, zstd 3; the default of lz4 is its fast mode.
_GZIP_DEFAULT_LEVEL, _LZ4_FAST_LEVEL, _ZSTD_DEFAULT_LEVEL = 6, 0, 3


class Codec(IntEnum):
    """Bits 0-2 of the attributes of a batch or old message."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Compress `data` as a producer would; `level` None is Kafka's default for the codec.

    Raises UnsupportedCodec.
    """
    if codec == Codec.NONE:
        return bytes(data)
    compressor = _COMPRESSORS.get(codec)
    if compressor is None:
        raise UnsupportedCodec(codec)
    return compressor(data, level)


def decompress(codec: int, data: Buffer, max_size: int = DEFAULT_MAX_SIZE) -> bytes:
    """Decompress `data`.

    Raises CorruptBatch for damaged bytes, TooLarge for an output of more than `max_size` bytes, and UnsupportedCodec
    for an unknown id.
    """
    if codec == Codec.NONE:
        return bytes(data)
    decompressor = _DECOMPRESSORS.get(codec)
    if decompressor is None:
        raise UnsupportedCodec(codec)
    try:
        return decompressor(data, max_size)
    except TooLarge:
        raise TooLarge(f"compressed records hold more than {max_size} bytes") from None


def _compress_gzip(data: Buffer, level: int | None) -> bytes:
    return bytes(cramjam.gzip.compress(data, level=_GZIP_DEFAULT_LEVEL if level is None or level < 0 else level))


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    if level is None and len(data) <= USUAL_BLOCK_SIZE:
        # As below but without a block checksum, which Java's client does not write either: this takes half the time.
        block = bytes(cramjam.lz4.compress_block(data, store_size=False))
        if len(block) < len(data):
            return frame_of_block(block)
    # Independent blocks: Java's reader rejects linked ones.
    frame = cramjam.lz4.Compressor(
        level=_LZ4_FAST_LEVEL if level is None else level, content_checksum=False, block_linked=False
    )
    frame.compress(bytes(data))
    return bytes(frame.finish())


def _compress_zstd(data: Buffer, level: int | None) -> bytes:
    return bytes(cramjam.zstd.compress(data, level=_ZSTD_DEFAULT_LEVEL if level is None else level))


def _compress_snappy(data: Buffer, level: int | None) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_SIZE]))
        parts.append(len(block).to_bytes(4, "big"))
        parts.append(block)
    return b"".join(parts)


def _into_buffer(module: Any) -> Callable[[Buffer, int], bytes]:
    """Return a function that decompresses into a buffer, which it enlarges until the output fits or the limit is
    reached.
    """
    decompress_into = module.decompress_into

    def decompress_bounded(data: Buffer, max_size: int) -> bytes:
        size = min(4 * len(data) + 4096, max_size)
        while True:
            out = bytearray(size)
            try:
                written: int = decompress_into(data, out)
            except cramjam.DecompressionError as error:
                if "write whole buffer" not in str(error):
                    raise CorruptBatch(f"compressed records: {error}") from None
            else:
                return bytes(memoryview(out)[:written])
            if size >= max_size:
                raise TooLarge
            size = min(size * 8, max_size)

    return decompress_bounded


def _decompress_gzip(data: Buffer, max_size: int) -> bytes:
    try:
        return _decompress_gzip_alone(data, max_size)
    except TooLarge:
        raise
    except CorruptBatch:
        # Perhaps only the bytes after a complete stream are invalid.
        parts: list[bytes] = []
        view, position = memoryview(data), 0
        while not position or (view[position : position + 3] == _GZIP_MAGIC and len(view) - position > _GZIP_LEAST):
            stream = zlib.decompressobj(_GZIP_WINDOW)
            while not stream.eof:
                piece = view[position : position + _GZIP_PIECE]
                if not piece or max_size < 0:
                    raise
                try:
                    parts.append(stream.decompress(piece, max_size + 1))
                except zlib.error as error:
                    raise CorruptBatch(f"compressed records: {error}") from None
                max_size -= len(parts[-1])
                position += len(piece) - len(stream.unconsumed_tail) - len(stream.unused_data)
            if max_size < 0:
                raise
        return b"".join(parts)


def _decompress_lz4(data: Buffer, max_size: int) -> bytes:
    view = memoryview(data)
    block = only_block(view)
    if block is not None:
        # The usual case. The frame reader below handles larger or damaged frames.
        out = bytearray(min(4 * len(block) + 4096, USUAL_BLOCK_SIZE, max_size))
        with suppress(cramjam.DecompressionError):
            written: int = cramjam.lz4.decompress_block_into(block, out, len(out))
            return bytes(memoryview(out)[:written])
    return _decompress_lz4_frame(view[: first_frame_size(view)], max_size)


def _decompress_zstd(data: Buffer, max_size: int) -> bytes:
    return _decompress_zstd_frames(data, max_size) if len(data) else b""


def _decompress_snappy(data: Buffer, max_size: int) -> bytes:
    view = memoryview(data)
    if view[:8] != _XERIAL_MAGIC or len(view) < len(_XERIAL_HEADER):
        return _decompress_snappy_block(view, max_size)
    position = len(_XERIAL_HEADER)
    parts: list[bytes] = []
    while position + 4 <= len(view):
        if view[position : position + 8] == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)
            continue
        length = int.from_bytes(view[position : position + 4], "big")
        position += 4
        if position + length > len(view) or not length:
            raise CorruptBatch(f"a snappy block of {length} bytes reaches past the end of the records")
        block = _decompress_snappy_block(view[position : position + length], max_size)
        max_size -= len(block)
        parts.append(block)
        position += length
    return b"".join(parts)


def _decompress_snappy_block(block: memoryview, max_size: int) -> bytes:
    # A block never decompresses to more than 64 times its size, so a larger declared length is invalid and is not
    # allocated.
    try:
        size: int = cramjam.snappy.decompress_raw_len(block)
        if size > max_size and size <= 64 * len(block):
            raise TooLarge
        if size > 64 * len(block):
            raise CorruptBatch(f"a snappy block of {len(block)} bytes claims to hold {size}")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"compressed records: {error}") from None


_decompress_gzip_alone = _into_buffer(cramjam.gzip)
_decompress_lz4_frame = _into_buffer(cramjam.lz4)
_decompress_zstd_frames = _into_buffer(cramjam.zstd)

_COMPRESSORS: dict[int, Callable[[Buffer, int | None], bytes]] = {
    Codec.GZIP: _compress_gzip,
    Codec.SNAPPY: _compress_snappy,
    Codec.LZ4: _compress_lz4,
    Codec.ZSTD: _compress_zstd,
}
_DECOMPRESSORS: dict[int, Callable[[Buffer, int], bytes]] = {
    Codec.GZIP: _decompress_gzip,
    Codec.SNAPPY: _decompress_snappy,
    Codec.LZ4: _decompress_lz4,
    Codec.ZSTD: _decompress_zstd,
}
