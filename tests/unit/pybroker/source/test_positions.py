"""Start and end of a stream's micro-batches when partitions are added, deleted or truncated."""

from __future__ import annotations

import json

import pytest

from pybroker.source.errors import DataLoss
from pybroker.source.positions import ends_of, read_positions, stream_ranges, written_positions
from pybroker.source.ranges import OffsetRange

ONE, TWO, TEN = ("orders", 1), ("orders", 2), ("orders", 10)


def test_positions_have_sparks_format() -> None:
    """In one order, as Spark compares the strings."""
    written = written_positions({TEN: 7, ("clicks", 0): 5, TWO: 3})

    assert json.dumps(written) == '{"clicks": {"0": 5}, "orders": {"2": 3, "10": 7}}'
    assert read_positions(json.loads(json.dumps(written))) == {TEN: 7, ("clicks", 0): 5, TWO: 3}


def test_batch_ends_at_the_latest_offsets_of_all_partitions() -> None:
    assert ends_of({ONE: 5, TWO: 7}, {ONE: 9, TWO: 7, TEN: 4}, fail_on_data_loss=True) == {ONE: 9, TWO: 7, TEN: 4}


@pytest.mark.parametrize(
    ("latest", "expected", "end"), [({ONE: 4}, "5, and now it ends at 4", 4), ({}, "it is deleted", 5)]
)
def test_shrunk_or_deleted_partition_fails_or_resumes_at_end(
    latest: dict[tuple[str, int], int], expected: str, end: int
) -> None:
    """For example of a topic that was recreated: at the old offset 5, its next record would be skipped too."""
    with pytest.raises(DataLoss, match=expected):
        ends_of({ONE: 5}, latest, fail_on_data_loss=True)

    assert ends_of({ONE: 5}, latest, fail_on_data_loss=False) == {ONE: end}


def test_batch_reads_new_partitions_from_their_first_record() -> None:
    ranges = stream_ranges({ONE: 5, TWO: 7}, {ONE: 9, TWO: 7, TEN: 4}, {TEN: 0}, fail_on_data_loss=True)

    assert ranges == [OffsetRange("orders", 1, 5, 9), OffsetRange("orders", 10, 0, 4)]


def test_new_partition_without_first_records_fails_or_skips() -> None:
    with pytest.raises(DataLoss, match="orders-10: is new, and its records before offset 2 are lost"):
        stream_ranges({ONE: 5}, {ONE: 9, TEN: 4}, {TEN: 2}, fail_on_data_loss=True)

    assert stream_ranges({}, {TEN: 4}, {TEN: 2}, fail_on_data_loss=False) == [OffsetRange("orders", 10, 2, 4)]


@pytest.mark.parametrize(("begun", "earliest"), [({}, {}), ({ONE: 12}, {}), ({}, {ONE: 12})])
def test_missing_range_is_an_error_or_skipped(
    begun: dict[tuple[str, int], int], earliest: dict[tuple[str, int], int]
) -> None:
    """A new partition that was deleted, or whose records were; a checkpoint of another topic."""
    with pytest.raises(DataLoss, match="orders-1"):
        stream_ranges(begun, {ONE: 9}, earliest, fail_on_data_loss=True)

    assert stream_ranges(begun, {ONE: 9}, earliest, fail_on_data_loss=False) == []
