"""Ranges of versions in the notation of Kafka's message definitions: "3", "0-12", "4+", "none"."""

from __future__ import annotations

from collections.abc import Iterator

OPEN_END = 0x7FFF


class VersionRange:
    """The versions from `min` to `max`, both inclusive; empty if max < min. Immutable, compared by value."""

    __slots__ = ("max", "min")

    def __init__(self, first: int, last: int) -> None:
        self.min = first
        self.max = last

    def __contains__(self, version: int) -> bool:
        return self.min <= version <= self.max

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.min, self.max + 1))

    def __and__(self, other: VersionRange) -> VersionRange:
        return VersionRange(max(self.min, other.min), min(self.max, other.max))

    def __bool__(self) -> bool:
        return self.min <= self.max

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VersionRange) and (self.min, self.max) == (other.min, other.max)

    def __hash__(self) -> int:
        return hash((self.min, self.max))

    def __str__(self) -> str:
        if not self:
            return "none"
        if self.max == OPEN_END:
            return f"{self.min}+"
        return str(self.min) if self.min == self.max else f"{self.min}-{self.max}"

    def __repr__(self) -> str:
        return f"VersionRange({self})"


NO_VERSIONS = VersionRange(0, -1)
_parsed = {"": NO_VERSIONS, "none": NO_VERSIONS}


def parse_versions(text: str) -> VersionRange:
    """Parse a version range. Raises ValueError."""
    found = _parsed.get(text)
    if found is None:
        first, dash, last = text.partition("-")
        if dash:
            found = VersionRange(int(first), int(last))
        elif text.endswith("+"):
            found = VersionRange(int(text[:-1]), OPEN_END)
        else:
            found = VersionRange(int(text), int(text))
        _parsed[text] = found
    return found
