"""Version ranges as in Kafka's message definitions."""

from __future__ import annotations

import pytest

from protocol.versions import NO_VERSIONS, VersionRange, parse_versions


@pytest.mark.parametrize(
    ("text", "first", "last"), [("0", 0, 0), ("3-12", 3, 12), ("4+", 4, 0x7FFF), ("none", 0, -1), ("", 0, -1)]
)
def test_parse(text: str, first: int, last: int):
    """One version, a closed range, an open one, none."""
    assert parse_versions(text) == VersionRange(first, last)


@pytest.mark.parametrize("text", ["x", "1-x", "+", "1,2"])
def test_parse_rejects_invalid_ranges(text: str):
    """A typo in a schema is rejected."""
    with pytest.raises(ValueError, match="invalid literal"):
        parse_versions(text)


@pytest.mark.parametrize("text", ["0", "3-12", "4+", "none"])
def test_str_returns_the_parsed_text(text: str):
    """Ranges print in their notation."""
    assert str(parse_versions(text)) == text
    assert repr(parse_versions(text)) == f"VersionRange({text})"


def test_membership_iteration_and_intersection():
    """Both ends are inclusive; an empty range is false."""
    versions = parse_versions("2-4")

    assert list(versions) == [2, 3, 4]
    assert 4 in versions
    assert 5 not in versions
    assert versions & parse_versions("3+") == VersionRange(3, 4)
    assert not versions & parse_versions("5+")
    assert not NO_VERSIONS
    assert versions != "2-4"
    assert hash(versions) == hash(VersionRange(2, 4))
