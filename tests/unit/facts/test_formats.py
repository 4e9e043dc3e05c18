"""The old formats, in files that Apache Kafka wrote: each field is at the byte that the documents name."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from struct import unpack_from

import pytest

from protocol.records.compression import Codec
from protocol.records.entries import iter_records
from storage.log_config import LogConfig

LOGS = Path(__file__).parents[2] / "data/logs"
OLD = LOGS / "v3.9.1-old-formats"
NEW = LOGS / "v4.3.1-clean-shutdown"


def segments(directory: Path, prefix: str) -> list[bytes]:
    found = [file.read_bytes() for file in sorted(directory.glob(f"{prefix}*/*.log")) if file.stat().st_size]
    assert found
    return found


def entries(data: bytes) -> Iterator[bytes]:
    """Iterate over the entries by their size fields alone."""
    position = 0
    while position < len(data):
        (size,) = unpack_from(">i", data, position + 8)
        yield data[position : position + 12 + size]
        position += 12 + size
    assert position == len(data)


@pytest.mark.parametrize(
    ("directory", "prefix", "magics"), [(OLD, "v0-", {0}), (OLD, "v1-", {1}), (OLD, "mixed", {0, 1, 2}), (NEW, "", {2})]
)
def test_byte_16_distinguishes_the_three_formats(directory: Path, prefix: str, magics: set[int]) -> None:
    """S7.1, S7.7, S7.5: 0, 1 or 2 in each entry. The size leads to the next entry and to the end of the file."""
    assert {entry[16] for data in segments(directory, prefix) for entry in entries(data)} == magics


@pytest.mark.parametrize(
    ("release", "magic"), [("0.8.0", 0), ("0.9.0", 0), ("0.10.0", 1), ("0.10.2", 1), ("0.11.0", 2), ("3.0-IV1", 2)]
)
def test_each_format_has_its_releases(release: str, magic: int) -> None:
    """S7.2: v0 before 0.10.0, v1 before 0.11.0, v2 since then, as message.format.version says."""
    assert LogConfig(message_format_version=release).message_magic == magic


@pytest.mark.parametrize("prefix", ["v0-none", "v1-none", "v0-native-none", "v1-native-none"])
def test_offsets_and_checksums_of_messages(prefix: str) -> None:
    """S7.4, S7.6: first eight bytes of offset, ascending.

    CRC-32 covers everything from the magic on, nothing before.
    """
    for data in segments(OLD, prefix):
        offsets = [unpack_from(">q", entry)[0] for entry in entries(data)]
        assert offsets == sorted(set(offsets))
        assert offsets == [record.offset for record in iter_records(data)]
        for entry in entries(data):
            assert unpack_from(">I", entry, 12)[0] == zlib.crc32(entry[16:])


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_the_three_lowest_bits_of_the_attributes_are_the_codec(magic: int, codec: Codec) -> None:
    """S7.8: the other bits are zero if the producer sets the timestamp."""
    for data in segments(OLD, f"v{magic}-{codec.name.lower()}"):
        assert {entry[17] for entry in entries(data)} == {int(codec)}


def test_messages_have_timestamps_since_v1() -> None:
    """S12.1: a record in v0 has timestamp -1."""
    times = {
        prefix: {record.timestamp for data in segments(OLD, prefix) for record in iter_records(data)}
        for prefix in ("v0-none", "v1-none")
    }

    assert times["v0-none"] == {-1}
    assert min(times["v1-none"]) > 1_000_000_000_000
