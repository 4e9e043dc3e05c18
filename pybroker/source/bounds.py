"""Where reading starts or ends in each partition: by offset, or by time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pybroker.source.errors import UnusableOption

TopicPartition = tuple[str, int]

#: Offsets that stand for places, as in Kafka's protocol and in Spark's options.
EARLIEST, LATEST = -2, -1
OFFSET, TIMESTAMP = "offset", "timestamp"
_LONG_MAX = (1 << 63) - 1


class Bound(NamedTuple):
    """An offset (-2 earliest, -1 latest), or a time in ms: that of the first record which is no older."""

    kind: str
    value: int


@dataclass(frozen=True)
class Bounds:
    """`usual` for all partitions, or those of `each`, which then has to name every one.

    `late_means_latest`: where no record is as late as a time, the end is meant; else that is NoSuchTime.
    """

    usual: Bound | None = None
    each: Mapping[TopicPartition, Bound] = field(default_factory=dict)
    late_means_latest: bool = True

    def of(self, topic: str, partition: int) -> Bound:
        """The bound of a partition. Errors: UnusableOption where none was given."""
        bound = self.each.get((topic, partition), self.usual)
        if bound is None:
            raise UnusableOption(f"no offset is given for {topic}-{partition}: all partitions have to be named")
        return bound

    def to_json(self) -> dict[str, Any]:
        """As it goes through a pipe."""
        each = [[*place, *bound] for place, bound in self.each.items()]
        return {"usual": self.usual, "each": each, "late_means_latest": self.late_means_latest}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Bounds:
        """The bounds again."""
        usual = None if told["usual"] is None else Bound(*told["usual"])
        each = {(topic, partition): Bound(kind, value) for topic, partition, kind, value in told["each"]}
        return cls(usual, each, told["late_means_latest"])


def at_offset(offset: int) -> Bounds:
    """The same offset, or place, in all partitions."""
    return Bounds(Bound(OFFSET, offset))


def at_time(timestamp_ms: int, *, late_means_latest: bool = True) -> Bounds:
    """The same time in all partitions."""
    return Bounds(Bound(TIMESTAMP, timestamp_ms), late_means_latest=late_means_latest)


def bounds_of(value: int | str | None, timestamp_ms: int | None, usual: int, *, name: str) -> Bounds:
    """What a caller means by an offset, 'earliest' or 'latest', or else by a time; `usual` for neither.

    Errors: UnusableOption for both, and for what is no offset.
    """
    if value is not None and timestamp_ms is not None:
        raise UnusableOption(f"{name}: an offset and a time are given, and one of them can count")
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
