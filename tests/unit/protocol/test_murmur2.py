"""The partition of a key, as Java clients compute it."""

from __future__ import annotations

import pytest

from protocol.murmur2 import murmur2, partition_of


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_hashes_are_those_of_kafkas_test(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected & 0xFFFFFFFF
    assert partition_of(key, 7) == (expected & 0x7FFFFFFF) % 7


def test_empty_key_has_a_partition() -> None:
    assert 0 <= partition_of(b"", 3) < 3
