"""A walk over the segments of an epoch reads as many as its caller needs, in the order of all of them."""

from __future__ import annotations

from tests.unit.tiered.copies import FINISHED, copied, enter, segment
from tiered.segments import RemoteSegments


def test_segments_with_the_same_start_are_in_the_order_of_the_epoch() -> None:
    """A copy of two epochs begins where a late one of the later epoch begins, in another lineage."""
    segments = copied(segment(1, 1, 11, ((0, 1), (2, 10))), segment(2, 1, 1, ((2, 1),)))
    assert [each.end_offset for each in segments.of_epoch(2)] == [1, 11]
    assert list(segments.walk(2)) == segments.of_epoch(2)


def test_the_walk_goes_on_with_exceptions_only() -> None:
    segments = copied(*(segment(number, number * 10, number * 10 + 9) for number in range(5)))
    segments.add(segment(5, 50, 59))
    assert [each.start_offset for each in segments.walk(0, lambda start: start < 20)] == [0, 10, 50]
    assert [each.start_offset for each in segments.exceptions(0)] == [50]


def test_a_copy_that_begins_again_with_other_epochs_leaves_the_former_ones() -> None:
    segments = RemoteSegments()
    assert segments.add(segment(1, 0, 9, ((0, 0), (1, 5))))
    assert segments.add(segment(1, 0, 9, ((0, 0),)))
    assert enter(segments, 1, FINISHED)
    assert segments.epochs == [0]
    assert segments.ordered_bytes(0, 0, 0, 10) == 100
    assert segments.ordered_bytes(0, 0, 10, 20) == 0
    assert segments.ordered_bytes(0, 0, 0, 9) == 0
