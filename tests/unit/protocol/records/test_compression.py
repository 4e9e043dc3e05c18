"""Codecs compared with independent implementations, and decompression bombs."""

import gzip
import random
import tracemalloc
import zlib
from contextlib import suppress
from typing import Any

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.records.compression import Codec, compress, decompress
from protocol.records.errors import CorruptBatch, TooLarge, UnsupportedCodec
from tests.support.scale import scaled

CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
DATA = st.builds(
    lambda part, times, tail: part * times + tail, st.binary(max_size=90), st.integers(0, 3000), st.binary()
)


def oracle_compress(codec: Codec, data: bytes) -> bytes:
    if codec is Codec.GZIP:
        return gzip.compress(data)
    if codec is Codec.LZ4:
        return lz4.frame.compress(data)
    if codec is Codec.ZSTD:
        return zstandard.compress(data)
    return xerial(data)


def oracle_decompress(codec: Codec, data: bytes) -> bytes:
    if codec is Codec.GZIP:
        return gzip.decompress(data)
    if codec is Codec.LZ4:
        return bytes(lz4.frame.decompress(data))
    if codec is Codec.ZSTD:
        return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    parts, position = [], 16
    while position < len(data):
        length = int.from_bytes(data[position : position + 4], "big")
        parts.append(snappy.uncompress(data[position + 4 : position + 4 + length]))
        position += 4 + length
    return b"".join(parts)


def xerial(data: bytes, block: int = 32768) -> bytes:
    out = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    for start in range(0, len(data), block):
        part = snappy.compress(data[start : start + block])
        out += len(part).to_bytes(4, "big") + part
    return out


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=scaled(25), deadline=None)
@given(data=DATA)
def test_codecs_interoperate_with_other_libraries(codec: Codec, data: bytes) -> None:
    assert oracle_decompress(codec, compress(codec, data)) == data
    assert decompress(codec, oracle_compress(codec, data)) == data
    assert decompress(codec, memoryview(compress(codec, memoryview(data)))) == data


@pytest.mark.parametrize(
    ("codec", "levels"), [(Codec.GZIP, (-1, 1, 9)), (Codec.LZ4, (1, 9, 12)), (Codec.ZSTD, (-5, 1, 19))]
)
def test_levels_apply_to_the_codec(codec: Codec, levels: tuple[int, ...]) -> None:
    """compression.<codec>.level (KIP-390)."""
    words = [b"alpha", b"beta", b"gamma", b"delta", b"epsilon", b"zeta", b"eta", b"theta", b"iota", b"kappa"]
    data = b" ".join(random.Random(1).choices(words, k=20_000))
    for level in levels:
        assert oracle_decompress(codec, compress(codec, data, level)) == data
    assert len(compress(codec, data, levels[-1])) < len(compress(codec, data, levels[1]))


def test_lz4_blocks_are_independent() -> None:
    """Java's reader rejects frames with linked blocks: flag bit 5 must be set."""
    assert compress(Codec.LZ4, b"abc" * 100_000)[4] & 0x20


@settings(max_examples=scaled(100), deadline=None)
@given(part=st.binary(max_size=300), times=st.integers(1, 300))
def test_lz4_frames_of_one_block_equal_those_of_java(part: bytes, times: int) -> None:
    """Frames of one block are built here; the library builds those with incompressible or several blocks."""
    frame = compress(Codec.LZ4, part * times)
    assert lz4.frame.decompress(frame) == part * times
    if times > 3 and 100 < len(part) * times <= 1 << 16:
        assert frame[:7] == bytes.fromhex("04224d18604082")
        assert lz4.frame.get_frame_info(frame)["block_checksum"] is False


@pytest.mark.parametrize("size", [100, 5_000, 65_536, 65_537])
def test_lz4_frames_of_one_block_are_read(size: int) -> None:
    """For blocks of any compression ratio, and never more than the limit."""
    chance = random.Random(1)
    for data in (bytes(size), b"".join(chance.choices([b"ab", b"cde", b"f"], k=size)), chance.randbytes(size)):
        frame = lz4.frame.compress(data, block_linked=False, store_size=False, block_size=lz4.frame.BLOCKSIZE_MAX64KB)
        assert decompress(Codec.LZ4, frame) == decompress(Codec.LZ4, frame + b"anything") == data
        with pytest.raises(TooLarge):
            decompress(Codec.LZ4, frame, len(data) - 1)


@pytest.mark.parametrize("at", [7, 11, -4])
def test_damaged_lz4_frames_of_one_block_are_corrupt(at: int) -> None:
    """In the size of the block, in the block, and at the end of the frame."""
    frame = bytearray(compress(Codec.LZ4, b"abc" * 1000))
    frame[at] ^= 0xFF
    with pytest.raises(CorruptBatch):
        decompress(Codec.LZ4, frame)


def test_codec_none_copies() -> None:
    assert compress(Codec.NONE, memoryview(b"abc")) == b"abc" == decompress(Codec.NONE, memoryview(b"abc"))


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_rejected(codec: int) -> None:
    with pytest.raises(UnsupportedCodec):
        compress(codec, b"")
    with pytest.raises(UnsupportedCodec):
        decompress(codec, b"")


def test_lz4_frames_of_other_shapes_are_read() -> None:
    """librdkafka and Java write different flags: linked blocks, checksums, content size, small blocks."""
    data = b"0123456789abcdef" * 20_000
    for linked in (True, False):
        for checksums in (True, False):
            for size in (lz4.frame.BLOCKSIZE_MAX64KB, lz4.frame.BLOCKSIZE_MAX4MB):
                frame = lz4.frame.compress(
                    data, block_linked=linked, content_checksum=checksums, block_checksum=checksums, block_size=size,
                    store_size=checksums,
                )  # fmt: skip
                assert decompress(Codec.LZ4, frame) == data


def test_zstd_without_content_size_is_read() -> None:
    """Frames of Java streams do not declare their size."""
    data = b"row\n" * 100_000
    stream = zstandard.ZstdCompressor().compressobj()
    assert decompress(Codec.ZSTD, stream.compress(data) + stream.flush()) == data


def test_bare_snappy_is_read() -> None:
    """Some clients sent blocks without xerial's framing, and Java reads those too."""
    assert decompress(Codec.SNAPPY, snappy.compress(b"abc" * 1000)) == b"abc" * 1000


@pytest.mark.parametrize("codec", CODECS)
def test_bombs_are_rejected_without_their_memory(codec: Codec) -> None:
    """Far more than the limit: an error, without much more memory than the limit."""
    bomb = oracle_compress(codec, bytes(64 << 20))
    tracemalloc.start()
    with pytest.raises(CorruptBatch):
        decompress(codec, bomb, max_size=1 << 20)
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("codec", CODECS)
def test_limit_is_exact(codec: Codec) -> None:
    data = b"x" * 100_000
    assert decompress(codec, compress(codec, data), max_size=100_000) == data
    with pytest.raises(CorruptBatch):
        decompress(codec, compress(codec, data), max_size=99_999)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b[:7], lambda b: b"no such format at all"])
def test_damage_is_rejected(codec: Codec, damage: object) -> None:
    data = b"".join(b"%d" % number for number in range(5000))
    with pytest.raises(CorruptBatch):
        decompress(codec, damage(compress(codec, data)))  # type: ignore[operator]


def test_only_zstd_accepts_empty_input() -> None:
    """Java's readers accept it too."""
    assert decompress(Codec.ZSTD, b"") == b""
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4):
        with pytest.raises(CorruptBatch):
            decompress(codec, b"")


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_bytes_after_a_stream_are_ignored(codec: Codec) -> None:
    """As in Java's readers; a second stream counts, except for lz4."""
    once = compress(codec, b"data" * 1000)
    assert decompress(codec, once + b"\0") == b"data" * 1000
    assert decompress(codec, once + once) == b"data" * (1000 if codec is Codec.LZ4 else 2000)


class CountedStreams:
    """Counts the bytes that all zlib streams get."""

    def __init__(self) -> None:
        self.given = 0
        self._make = zlib.decompressobj

    def __call__(self, window: int) -> "CountedStreams.Stream":
        return self.Stream(self, self._make(window))

    class Stream:
        def __init__(self, streams: "CountedStreams", inner: Any) -> None:
            self._streams = streams
            self._inner = inner

        def decompress(self, data: memoryview, max_length: int) -> bytes:
            self._streams.given += len(data)
            return bytes(self._inner.decompress(data, max_length))

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)


def test_many_small_gzip_streams_take_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes follow each stream, so each is inspected; the rest must not be copied for each."""
    streams = CountedStreams()
    monkeypatch.setattr(zlib, "decompressobj", streams)
    one = gzip.compress(b"data" * 4)
    noise = random.Random(5).randbytes(10_000)  # more than one call gets, on both sides
    data = one * 2000 + gzip.compress(noise) + one * 2000
    assert decompress(Codec.GZIP, data + bytes(5)) == b"data" * 8000 + noise + b"data" * 8000
    assert streams.given <= 4096 * 4010
    with pytest.raises(CorruptBatch):
        decompress(Codec.GZIP, data + bytes(5), max_size=64_000)
    with pytest.raises(CorruptBatch):
        decompress(Codec.GZIP, data[:-3])


def test_end_of_lz4_frames_of_any_shape() -> None:
    """Checksums of blocks and content, and the content size."""
    data = b"0123456789abcdef" * 20_000
    for checksums in (True, False):
        frame = lz4.frame.compress(data, content_checksum=checksums, block_checksum=checksums, store_size=checksums)
        assert decompress(Codec.LZ4, frame + b"anything") == data


def test_snappy_block_with_a_false_size_allocates_nothing() -> None:
    with pytest.raises(CorruptBatch, match="claims"):
        decompress(Codec.SNAPPY, b"\xff\xff\xff\x3f" + b"a" * 20)


@settings(max_examples=scaled(200))
@given(st.sampled_from(CODECS), st.binary(max_size=100))
def test_random_bytes_are_rejected_or_read(codec: Codec, data: bytes) -> None:
    with suppress(CorruptBatch):
        decompress(codec, data, max_size=1 << 16)
