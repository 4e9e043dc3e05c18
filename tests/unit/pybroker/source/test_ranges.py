"""Ranges split among tasks or limited for a micro-batch, without gap or overlap."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pybroker.source.ranges import OffsetRange, bounded_ends, split_ranges

RANGES = st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(0, 300)), max_size=6).map(
    lambda found: [OffsetRange("orders", number, start, start + size) for number, (start, size) in enumerate(found)]
)
COUNTS = st.none() | st.integers(1, 40)


@given(RANGES, COUNTS, COUNTS)
def test_parts_cover_the_whole_range(ranges: list[OffsetRange], at_least: int | None, most_records: int | None) -> None:
    parts = split_ranges(ranges, at_least=at_least, most_records=most_records)

    assert all(part.size > 0 for part in parts)
    for whole in ranges:
        here = [part for part in parts if part.partition == whole.partition]
        assert [offset for part in here for offset in range(part.start, part.end)] == list(
            range(whole.start, whole.end)
        )
    if most_records is not None:
        assert all(part.size <= most_records for part in parts)
    if at_least is not None:
        assert len(parts) >= min(at_least, sum(whole.size for whole in ranges))


def test_larger_ranges_have_more_parts() -> None:
    ranges = [OffsetRange("orders", 0, 0, 900), OffsetRange("orders", 1, 50, 150)]

    parts = split_ranges(ranges, at_least=10)

    assert [part.partition for part in parts].count(0) == 9
    assert [part.partition for part in parts].count(1) == 1
    assert split_ranges(ranges) == ranges
    assert split_ranges(ranges, at_least=2) == ranges


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), max_size=6), st.integers(1, 500))
def test_limited_batches_make_progress(found: list[tuple[int, int]], limit: int) -> None:
    """Each partition with records advances, so that small ones are not starved."""
    starts = {("orders", number): start for number, (start, _) in enumerate(found)}
    ends = {("orders", number): start + size for number, (start, size) in enumerate(found)}

    bounded = bounded_ends(starts, ends, limit)

    for place, end in ends.items():
        assert starts[place] <= bounded[place] <= end
        assert (bounded[place] > starts[place]) == (end > starts[place])
    assert sum(bounded[place] - starts[place] for place in ends) <= limit + len(ends)
