"""Where reading starts or ends in each partition: by offset, or by time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pybroker.source.errors import UnusableOption

TopicPartition = tuple[str, int]

#: Special offsets, as in Kafka's protocol and Spark's options.
EARLIEST, LATEST = -2, -1
OFFSET, TIMESTAMP = "offset", "timestamp"
_LONG_MAX = (1 << 63) - 1


class Bound(NamedTuple):
    """An offset (-2 earliest, -1 latest), or a time in ms, which means the first record at or after it."""

    kind: str
    value: int


@dataclass(frozen=True)
class Bounds:
    """Bounds of partitions: `usual` for all of them, or `each`, which must then name every partition.

    When no record is at or after a time, the bound is the end with `late_means_latest`; otherwise it is NoSuchTime.
    """

    usual: Bound | None = None
    each: Mapping[TopicPartition, Bound] = field(default_factory=dict)
    late_means_latest: bool = True

    def of(self, topic: str, partition: int) -> Bound:
        """Return the bound of a partition. Errors: UnusableOption when none was given."""
        bound = self.each.get((topic, partition), self.usual)
        if bound is None:
            raise UnusableOption(f"no offset is given for {topic}-{partition}: name all partitions")
        return bound

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, which goes through a pipe."""
        each = [[*place, *bound] for place, bound in self.each.items()]
        return {"usual": self.usual, "each": each, "late_means_latest": self.late_means_latest}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Bounds:
        """Return the bounds from their JSON form."""
        usual = None if fields["usual"] is None else Bound(*fields["usual"])
        each = {(topic, partition): Bound(kind, value) for topic, partition, kind, value in fields["each"]}
        return cls(usual, each, fields["late_means_latest"])


def at_offset(offset: int) -> Bounds:
    """Return the same offset, or special offset, for all partitions."""
    return Bounds(Bound(OFFSET, offset))


def at_time(timestamp_ms: int, *, late_means_latest: bool = True) -> Bounds:
    """Return the same time for all partitions."""
    return Bounds(Bound(TIMESTAMP, timestamp_ms), late_means_latest=late_means_latest)


def bounds_of(value: int | str | None, timestamp_ms: int | None, usual: int, *, name: str) -> Bounds:
    """Return the bound for an offset, 'earliest', 'latest' or a time; `usual` when the caller gives neither.

    Errors: UnusableOption when both are given, and for an invalid offset.
    """
    if value is not None and timestamp_ms is not None:
        raise UnusableOption(f"{name}: an offset and a time are given; give only one")
    if timestamp_ms is not None:
        return at_time(timestamp_ms)
    if value is None:
        return at_offset(usual)
    if isinstance(value, str):
        places = {"earliest": EARLIEST, "latest": LATEST}
        if value not in places:
            raise UnusableOption(f"{name}: {value!r} is neither an offset nor 'earliest' nor 'latest'")
        return at_offset(places[value])
    if not 0 <= value <= _LONG_MAX:
        raise UnusableOption(f"{name}: no record can have the offset {value}")
    return at_offset(value)
