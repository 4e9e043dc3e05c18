"""The header checksum of lz4 frames, right and as Kafka once wrote it."""

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
def test_a_broken_checksum_is_mended_to_what_the_library_wrote(store_size: bool) -> None:
    """Frames in v0 hash the magic number too; readers of the format refuse those (KIP-57)."""
    frame = lz4.frame.compress(b"a" * 301, store_size=store_size)
    broken = with_broken_header_checksum(frame)

    with pytest.raises(RuntimeError):
        lz4.frame.decompress(broken)
    assert with_right_header_checksum(broken) == frame == with_right_header_checksum(frame)


@pytest.mark.parametrize("frame", [b"", b"\x04\x22\x4d\x18", b"notaframe", b"\x04\x22\x4d\x18\x48\x40"])
def test_what_is_no_frame_is_refused(frame: bytes) -> None:
    with pytest.raises(CorruptBatch):
        with_right_header_checksum(frame)
