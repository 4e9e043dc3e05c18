"""The names of a log's files."""

from __future__ import annotations

import pytest

from storage.segment.files import file_name, parse_file_name


@pytest.mark.parametrize("offset", [0, 7, (1 << 63) - 2])
@pytest.mark.parametrize("suffix", [".log", ".timeindex", ".log.swap", ".log.497.corrupt"])
def test_names_round_trip(offset: int, suffix: str) -> None:
    assert parse_file_name(file_name(offset, suffix)) == (offset, suffix)


@pytest.mark.parametrize(
    "name",
    [
        "leader-epoch-checkpoint",
        "7.log",
        "00000000000000000000",
        "000000000000000000007.log",
        "0000000000000000000x.log",
        "-0000000000000000007.log",
        "0000000000000000000\u0667.log",
        "09223372036854775807.log",
        "99999999999999999999.log",
    ],
)
def test_foreign_names_are_ignored(name: str) -> None:
    assert parse_file_name(name) is None
