"""The remote segments of a partition: states, look-ups, replaced copies, memory."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from tests.unit.tiered.copies import DELETED, DELETING, FINISHED, STARTED, copied, enter, id_of, segment
from tiered.segment import RemoteSegment, SegmentState, SegmentUpdate, may_follow
from tiered.segments import RemoteSegments


def start_of(found: RemoteSegment | None) -> int | None:
    return None if found is None else found.start_offset


ALLOWED = [(STARTED, FINISHED), (STARTED, DELETING), (FINISHED, DELETING), (DELETING, DELETED)]


@pytest.mark.parametrize("earlier", SegmentState)
@pytest.mark.parametrize("later", SegmentState)
def test_states_follow_each_other_as_in_kafka(earlier: SegmentState, later: SegmentState) -> None:
    assert may_follow(later, earlier) == (earlier is later or (earlier, later) in ALLOWED)


def test_a_segment_is_found_from_its_finish_to_its_deletion() -> None:
    segments = RemoteSegments()
    segments.add(segment(1, 0, 9))
    assert segments.find(0, 5) is None
    enter(segments, 1, FINISHED)
    assert start_of(segments.find(0, 0)) == start_of(segments.find(0, 9)) == 0
    assert segments.find(0, 10) is None
    assert segments.find(1, 5) is None
    enter(segments, 1, DELETING)
    assert segments.find(0, 5) is None
    assert [each.state for each in segments.of_epoch(0)] == [DELETING]
    enter(segments, 1, DELETED)
    assert not segments.of_epoch(0)
    assert not segments.count
    assert not segments.size_bytes
    assert not segments.epochs
    assert segments.highest_offset(0) == 9


def test_records_that_do_not_fit_change_nothing() -> None:
    segments = copied(segment(1, 0, 9))
    assert not segments.add(segment(1, 0, 9))
    assert not enter(segments, 2, FINISHED)
    assert not enter(segments, 1, DELETED)
    assert not enter(segments, 1, STARTED)
    assert segments.count == 1
    assert segments.size_bytes == 100


def test_a_record_that_was_written_twice_counts_once() -> None:
    segments = RemoteSegments()
    assert segments.add(segment(1, 0, 9))
    assert segments.add(segment(1, 0, 9))
    assert enter(segments, 1, FINISHED, FINISHED)
    assert segments.count == 1
    assert segments.size_bytes == 100
    assert [each.state for each in segments.of_epoch(0)] == [FINISHED]


def test_an_offset_belongs_to_the_epoch_of_its_record() -> None:
    """Two leaders copied offsets 10 to 19 with different records."""
    segments = copied(segment(1, 0, 19), segment(2, 5, 29, ((0, 5), (1, 10), (3, 20))))
    assert start_of(segments.find(0, 3)) == 0
    assert start_of(segments.find(0, 9)) == 5
    assert segments.find(0, 12) is None
    assert start_of(segments.find(1, 12)) == 5
    assert segments.find(1, 20) is None
    assert start_of(segments.find(3, 20)) == 5
    assert [segments.highest_offset(epoch) for epoch in (0, 1, 2, 3)] == [19, 19, None, 29]
    assert segments.epochs == [0, 1, 3]


def test_a_longer_copy_replaces_those_that_it_includes() -> None:
    """Kafka: case 1 and 2 of RemoteLogLeaderEpochState."""
    segments = copied(segment(1, 10, 90), segment(2, 5, 100), segment(3, 101, 200))
    assert start_of(segments.find(0, 95)) == 5
    assert start_of(segments.find(0, 50)) == 5
    assert [each.start_offset for each in segments.of_epoch(0)] == [5, 10, 101]
    enter(segments, 1, DELETING)
    assert start_of(segments.find(0, 50)) == 5


def test_a_shorter_copy_that_comes_later_replaces_nothing() -> None:
    segments = copied(segment(1, 0, 100), segment(2, 50, 60))
    assert start_of(segments.find(0, 40)) == 0
    assert segments.highest_offset(0) == 100


def test_custom_metadata_and_epochs_survive_when_rows_move() -> None:
    segments = RemoteSegments()
    for number in range(1, 201):
        start = number * 10
        segments.add(segment(number, start, start + 9, ((number, start), (number + 1, start + 5))))
        segments.update(SegmentUpdate(id_of(number), FINISHED, 2, 7, b"key%d" % number))
    segments.add(segment(201, 2010, 2019, ((201, 2010),)))
    for number in range(1, 190):
        assert enter(segments, number, DELETING, DELETED)
    assert [each.custom for each in segments] == [b"key%d" % number for number in range(190, 201)] + [None]
    assert start_of(segments.find(195, 1952)) == 1950
    assert start_of(segments.find(195, 1947)) == 1940
    assert enter(segments, 201, FINISHED)
    assert start_of(segments.find(201, 2015)) == 2010
    assert segments.count == 12
    assert segments.size_bytes == 1200


def test_a_segment_needs_at_most_100_bytes() -> None:
    count = 20_000
    tracemalloc.start()
    try:
        segments = copied(*(segment(number, number * 10, number * 10 + 9) for number in range(count)))
        gc.collect()  # Python keeps some thousands of freed tuples until then
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert segments.count == count
    assert used < 100 * count


def test_old_segments_are_deleted_without_a_search_of_all() -> None:
    segments = copied(*(segment(number, number * 10, number * 10 + 9) for number in range(300)))
    assert all(enter(segments, number, DELETING, DELETED) for number in range(300))
    assert list(segments) == []
