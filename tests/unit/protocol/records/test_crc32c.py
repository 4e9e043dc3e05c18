"""CRC-32C: the check value, and the fast against the portable implementation."""

from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.records.crc32c import crc32c, portable_crc32c
from tests.support.scale import scaled

PORTABLE = portable_crc32c()


def test_check_value() -> None:
    """The standard check value of the Castagnoli polynomial."""
    assert crc32c(b"123456789") == PORTABLE(b"123456789", 0) == 0xE3069283


@settings(max_examples=scaled(100))
@given(st.binary(max_size=300), st.integers(0, 300))
def test_fast_and_portable_agree_on_slices_and_continuations(data: bytes, cut: int) -> None:
    """memoryview slices need no copy, and a checksum can be continued."""
    view = memoryview(bytearray(data))

    assert crc32c(view[cut:], crc32c(view[:cut])) == crc32c(data) == PORTABLE(data, 0)
    assert PORTABLE(data[cut:], PORTABLE(data[:cut], 0)) == crc32c(data)
