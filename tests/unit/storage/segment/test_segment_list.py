"""The segment of an offset: the documented examples of names."""

import pytest

from storage.fs import LOCAL
from storage.log_config import LogConfig
from storage.open_files import OpenFiles
from storage.segment.files import file_name
from storage.segment.segment import Segment
from storage.segment.segment_list import Segments


def segments(*base_offsets: int) -> Segments:
    found = Segments()
    for offset in base_offsets:
        found.add(Segment(OpenFiles(LOCAL), "/nowhere", offset, LogConfig(), created_ms=0))
    return found


@pytest.mark.parametrize(
    ("offset", "name"),
    [
        (0, "00000000000000000000.log"),
        (368769, "00000000000000368769.log"),
        (737337, "00000000000000737337.log"),
        (170410, "00000000000000170410.log"),
        (239430, "00000000000000239430.log"),
        ((1 << 63) - 1, "09223372036854775807.log"),
    ],
)
def test_name_is_the_base_offset_in_twenty_digits(offset: int, name: str) -> None:
    """S3.3, S3.5-S3.7."""
    assert file_name(offset, ".log") == name


@pytest.mark.parametrize(
    ("base_offsets", "offset", "expected"),
    [
        ((0, 368769, 737337), 368776, 368769),  # S4.10
        ((0, 170410, 239430), 170418, 170410),  # S4.11
        ((0, 801, 1601), 1000, 801),  # S4.12
        ((1000, 1500), 1499, 1000),  # S3.8
        ((1000, 1500), 1500, 1500),
        ((0, 10), 1 << 40, 10),
    ],
)
def test_floor_is_the_last_base_offset_not_above(base_offsets: tuple[int, ...], offset: int, expected: int) -> None:
    """S3.11."""
    found = segments(*reversed(base_offsets))
    assert found[found.floor(offset)].base_offset == expected
    assert [segment.base_offset for segment in found.from_offset(offset)] == [
        base for base in base_offsets if base >= expected
    ]


def test_difference_of_names_counts_the_offsets_of_a_segment() -> None:
    """S3.8: 1000..1499 are 500 offsets."""
    found = segments(1000, 1500)
    following = found.after(found[0])
    assert following is not None
    assert following.base_offset - found[0].base_offset == 500
    assert found.after(found[1]) is None


def test_set_is_ordered_and_replaces_the_same_base_offset() -> None:
    """There is one segment per base offset."""
    found = segments(30, 10, 20, 10)
    assert (len(found), found.base_offsets) == (3, [10, 20, 30])
    assert found.floor(5) == -1
    assert [segment.base_offset for segment in found.from_offset(5)] == [10, 20, 30]
    found.remove(found[1])
    assert found.base_offsets == [10, 30]
    with pytest.raises(KeyError):
        found.remove(segments(30)[0])
