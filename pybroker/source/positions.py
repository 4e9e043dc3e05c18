"""The position of a stream: the next offset to read in each partition. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pybroker.source.bounds import LATEST, TIMESTAMP, Bound, Bounds, TopicPartition
from pybroker.source.errors import DataLoss
from pybroker.source.ranges import OffsetRange

Positions = Mapping[TopicPartition, int]


def written_positions(positions: Positions) -> dict[str, dict[str, int]]:
    """Return positions as Spark stores them: {"orders": {"0": 23}}, sorted, so that equal positions are equal texts."""
    written: dict[str, dict[str, int]] = {}
    for topic, partition in sorted(positions):
        written.setdefault(topic, {})[str(partition)] = positions[topic, partition]
    return written


def read_positions(written: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """Return positions from the form in which Spark stores them."""
    return {
        (topic, int(partition)): offset
        for topic, partitions in written.items()
        for partition, offset in partitions.items()
    }


def ends_of(begun: Positions, latest: Positions, *, fail_on_data_loss: bool) -> dict[TopicPartition, int]:
    """Return where a micro-batch ends: at the latest offsets. A partition that is missing now keeps its position.

    Errors: with `fail_on_data_loss`, DataLoss when a partition is shorter than before, or was deleted. A shorter
    partition belongs to a new topic of that name, or has lost its end; without `fail_on_data_loss` the stream continues
    at its end.
    """
    for place, start in sorted(begun.items()):
        if fail_on_data_loss and latest.get(place, -1) < start:
            end = latest.get(place)
            now = "it is deleted" if end is None else f"it ends at {end}"
            raise DataLoss(f"{place[0]}-{place[1]}: was read up to offset {start}, and now {now}")
    return {**begun, **latest}


def limit_ends(final: Positions, begun: Positions, ends: Positions) -> dict[TopicPartition, int]:
    """Limit the `ends` of a micro-batch to `final`, and to the partitions that existed then."""
    return {
        place: min(end, max(begun.get(place, 0), final.get(place, 0)))
        for place, end in ends.items()
        if place in final or place in begun
    }


def begun_by(begun: Positions, ended: Positions, start: Bounds) -> dict[TopicPartition, int]:
    """Return where the first micro-batch of a query begins when it is repeated. It ends at `ended`.

    `begun` is where it would begin now. A partition that is read from its end, or from a time, may begin after `ended`
    now; its part of the batch was empty.
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
    """Return the ranges of a micro-batch. A new partition begins at its first record.

    Errors: with `fail_on_data_loss`, DataLoss when a new partition, or its first records, were deleted, or when a
    position moves back.
    """
    ranges = []
    for place, end in sorted(ended.items()):
        start = begun.get(place, earliest.get(place))
        if start is None or start > end:
            if fail_on_data_loss:
                raise DataLoss(
                    f"{place[0]}-{place[1]}: from offset {start} to {end}: the partition was deleted or created again"
                )
            continue
        if fail_on_data_loss and place not in begun and start > 0:
            raise DataLoss(f"{place[0]}-{place[1]}: is new, and its records before offset {start} are lost")
        if start < end:
            ranges.append(OffsetRange(*place, start, end))
    return ranges
