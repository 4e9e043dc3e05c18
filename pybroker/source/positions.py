"""How far a stream has come: the offset in each partition that is read next. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pybroker.source.bounds import LATEST, TIMESTAMP, Bound, Bounds, TopicPartition
from pybroker.source.errors import DataLoss
from pybroker.source.ranges import OffsetRange

Positions = Mapping[TopicPartition, int]


def written_positions(positions: Positions) -> dict[str, dict[str, int]]:
    """As Spark keeps them: {"orders": {"0": 23}}, in order, so that equal ones are equal texts."""
    written: dict[str, dict[str, int]] = {}
    for topic, partition in sorted(positions):
        written.setdefault(topic, {})[str(partition)] = positions[topic, partition]
    return written


def read_positions(written: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """And back."""
    return {
        (topic, int(partition)): offset
        for topic, partitions in written.items()
        for partition, offset in partitions.items()
    }


def ends_of(begun: Positions, latest: Positions, *, fail_on_data_loss: bool) -> dict[TopicPartition, int]:
    """Where a micro-batch ends: at the latest offsets. A partition that is not there now stays where it was.

    Errors: DataLoss where a partition has become shorter, or has gone, unless that may be. One that has become shorter
    is another topic's, or has lost its end: it goes on where that one ends.
    """
    for place, start in sorted(begun.items()):
        if fail_on_data_loss and latest.get(place, -1) < start:
            end = latest.get(place)
            now = "it is not there any more" if end is None else f"it ends at {end}"
            raise DataLoss(f"{place[0]}-{place[1]}: was read up to offset {start}, and now {now}")
    return {**begun, **latest}


def not_behind(final: Positions, begun: Positions, ends: Positions) -> dict[TopicPartition, int]:
    """The `ends` of a micro-batch that reads nothing behind `final`, of the partitions that there were then."""
    return {
        place: min(end, max(begun.get(place, 0), final.get(place, 0)))
        for place, end in ends.items()
        if place in final or place in begun
    }


def begun_by(begun: Positions, ended: Positions, start: Bounds) -> dict[TopicPartition, int]:
    """Where a query's first micro-batch begins, which ends at `ended`, when it is done again.

    `begun` is where it would begin now. By then what is read from the end on, or from a time, may begin behind it: so
    there was nothing in it.
    """
    return {
        place: min(offset, ended.get(place, offset)) if _moves(start.of(*place)) else offset
        for place, offset in begun.items()
    }


def _moves(bound: Bound) -> bool:
    return bound.kind == TIMESTAMP or bound.value == LATEST


def stream_ranges(
    begun: Positions, ended: Positions, earliest: Positions, *, fail_on_data_loss: bool
) -> list[OffsetRange]:
    """What a micro-batch reads. A partition that is new since begins at its first record.

    Errors: DataLoss for a new partition that has gone again, or whose first records have, or a position that goes back,
    unless that may be.
    """
    ranges = []
    for place, end in sorted(ended.items()):
        start = begun.get(place, earliest.get(place))
        if start is None or start > end:
            if fail_on_data_loss:
                raise DataLoss(
                    f"{place[0]}-{place[1]}: from offset {start} to {end}: the partition is another one, or gone"
                )
            continue
        if fail_on_data_loss and place not in begun and start > 0:
            raise DataLoss(
                f"{place[0]}-{place[1]}: is new, and what it had before offset {start} is not there any more"
            )
        if start < end:
            ranges.append(OffsetRange(*place, start, end))
    return ranges
