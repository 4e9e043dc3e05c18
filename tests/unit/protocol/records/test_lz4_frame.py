"""The header checksum of lz4 frames: the right one, and the one that Kafka once wrote."""

import lz4.frame
import pytest

from protocol.records.errors import CorruptBatch
from protocol.records.lz4_frame import with_broken_header_checksum, with_right_header_checksum, xxh32


@pytest.mark.parametrize(
    ("data", "digest"),
    [
        (b"", 0x02CC5D05),
        (b"a", 0x550D7456),
        (b"abc", 0x32D153FF),
        (b"Nobody inspects the spammish repetition", 0xE2293B2F),
    ],
)
def test_xxh32_has_the_published_values(data: bytes, digest: int) -> None:
    assert xxh32(data) == digest


@pytest.mark.parametrize("store_size", [True, False])
def test_header_checksum_can_be_broken_and_restored(store_size: bool) -> None:
    """Frames in v0 hash the magic number too, and standard readers reject those (KIP-57)."""
    frame = lz4.frame.compress(b"a" * 301, store_size=store_size)
    broken = with_broken_header_checksum(frame)

    with pytest.raises(RuntimeError):
        lz4.frame.decompress(broken)
    assert with_right_header_checksum(broken) == frame == with_right_header_checksum(frame)


@pytest.mark.parametrize("frame", [b"", b"\x04\x22\x4d\x18", b"notaframe", b"\x04\x22\x4d\x18\x48\x40"])
def test_invalid_frame_is_rejected(frame: bytes) -> None:
    with pytest.raises(CorruptBatch):
        with_right_header_checksum(frame)
