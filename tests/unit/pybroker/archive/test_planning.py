"""The offsets that the next run archives."""

from __future__ import annotations

import pytest

from pybroker.archive.errors import LogChanged
from pybroker.archive.planning import LogEnds, LostRange, steps, wanted_ranges
from pybroker.source.ranges import OffsetRange


def test_ranges_go_from_the_archive_to_the_settled_end() -> None:
    """New partitions and topics start at their first offset. Without new records there is no range."""
    ends = [
        LogEnds("clicks", 0, 5, 50, 60),
        LogEnds("orders", 0, 0, 50, 60),
        LogEnds("orders", 1, 0, 20, 20),
        LogEnds("orders", 2, 0, 20, 20),
        LogEnds("orders", 3, 0, 0, 9),
    ]

    plan = wanted_ranges(ends, {("orders", 1): 12, ("orders", 2): 20, ("gone", 0): 4}, skip_lost=False)

    assert plan.ranges == [
        *(OffsetRange("clicks", 0, 5, 50), OffsetRange("orders", 0, 0, 50), OffsetRange("orders", 1, 12, 20)),
    ]
    assert plan.lost == []


def test_empty_partition_is_recorded_at_the_first_archive() -> None:
    """Records that come later and are deleted before a run are then a loss, as for later partitions."""
    first = wanted_ranges([LogEnds("orders", 0, 0, 9, 9), LogEnds("orders", 1, 7, 7, 7)], {}, skip_lost=False)
    assert first.ranges == [OffsetRange("orders", 0, 0, 9), OffsetRange("orders", 1, 7, 7)]

    archived = {("orders", 0): 9, ("orders", 1): 7}
    assert wanted_ranges([LogEnds("orders", 1, 7, 7, 7)], archived, skip_lost=False).ranges == []
    for late, lost in ((LogEnds("orders", 1, 8, 9, 9), (7, 8)), (LogEnds("orders", 2, 3, 3, 3), (0, 3))):
        with pytest.raises(LogChanged, match=f"{late.name} begins at offset {late.earliest}, and is archived up to"):
            wanted_ranges([late], archived, skip_lost=False)
        plan = wanted_ranges([late], archived, skip_lost=True)
        assert plan.lost == [LostRange("orders", late.partition, *lost)]
        assert plan.ranges == [OffsetRange("orders", late.partition, late.earliest, late.settled)]


def test_settled_end_before_the_archive_is_no_range() -> None:
    """The user now leaves more offsets than before."""
    assert wanted_ranges([LogEnds("orders", 0, 0, 5, 20)], {("orders", 0): 9}, skip_lost=False).ranges == []


def test_lost_offsets_are_an_error_or_reported() -> None:
    ends = [LogEnds("orders", 0, 30, 50, 50)]

    with pytest.raises(LogChanged, match="begins at offset 30, and is archived up to 12"):
        wanted_ranges(ends, {("orders", 0): 12}, skip_lost=False)
    plan = wanted_ranges(ends, {("orders", 0): 12}, skip_lost=True)
    assert plan.ranges == [OffsetRange("orders", 0, 30, 50)]
    assert plan.lost == [LostRange("orders", 0, 12, 30)]


@pytest.mark.parametrize("skip", [True, False])
def test_log_that_ends_before_its_archive_is_another_topic(skip: bool) -> None:
    with pytest.raises(LogChanged, match="was the topic deleted and created again"):
        wanted_ranges([LogEnds("orders", 0, 0, 5, 5)], {("orders", 0): 12}, skip_lost=skip)


@pytest.mark.parametrize("most", [1, 3, 10, 1000])
def test_steps_cover_each_offset_once_in_order(most: int) -> None:
    """An empty range, which records the partition's start, comes first."""
    ranges = [OffsetRange("orders", 0, 5, 30), OffsetRange("orders", 1, 0, 2), OffsetRange("orders", 2, 4, 4)]
    turns = list(steps(ranges, most))

    for whole in ranges:
        parts = [each for turn in turns for each in turn if each[:2] == whole[:2]]
        offsets = [offset for part in parts for offset in range(part.start, part.end)]
        assert offsets == list(range(whole.start, whole.end))
    assert [each for turn in turns for each in turn if not each.size] == [OffsetRange("orders", 2, 4, 4)]
    assert OffsetRange("orders", 2, 4, 4) in turns[0]
    assert all(sum(each.size for each in turn) <= most + len(ranges) for turn in turns)
