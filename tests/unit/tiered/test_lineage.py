"""Which remote segments belong to a log, by leader epochs; the cases of Kafka's RemoteLogManagerTest."""

from __future__ import annotations

import pytest

from tests.unit.tiered.copies import DELETING, copied, enter, id_of, segment
from tiered.lineage import NOTHING_COPIED, Lineage, clamped, with_records
from tiered.segment import Epochs, SegmentState, SegmentUpdate


@pytest.mark.parametrize(
    ("epochs", "rest"),
    [
        ((), ()),
        (((0, 0), (1, 10)), ((0, 0), (1, 10))),
        (((0, 0), (1, 10), (5, 60), (6, 60), (7, 70)), ((0, 0), (1, 10), (6, 60), (7, 70))),
        (((1, 5), (2, 5), (3, 5)), ((3, 5),)),
    ],
)
def test_epochs_without_records_are_left_out(epochs: Epochs, rest: Epochs) -> None:
    assert with_records(epochs) == rest


LOG = Lineage(((0, 0), (2, 10), (5, 60), (7, 100)), 200)


@pytest.mark.parametrize(
    ("start", "end", "epochs", "belongs"),
    [
        (15, 35, ((2, 15),), True),
        (5, 65, ((0, 5), (2, 10), (5, 60)), True),
        (5, 65, ((0, 5), (1, 8), (2, 10), (5, 60)), False),  # an epoch that the log lacks
        (5, 65, ((0, 5), (5, 60)), False),  # lacks one of the log's
        (5, 65, ((0, 5), (2, 11), (5, 60)), False),  # begins elsewhere
        (5, 65, ((2, 5), (5, 60)), False),  # begins before its epoch
        (15, 60, ((2, 15),), False),  # ends behind its epoch
        (15, 59, ((2, 15),), True),
        (110, 199, ((7, 110),), True),
        (110, 200, ((7, 110),), False),  # ends behind the log
        (110, 150, ((8, 110),), False),
        (5, 65, ((0, 5), (1, 10), (2, 10), (5, 60)), True),  # epoch 1 has no records
    ],
)
def test_a_segment_belongs_to_the_log_if_its_epochs_do(start: int, end: int, epochs: Epochs, belongs: bool) -> None:
    assert LOG.contains(segment(1, start, end, epochs)) == belongs


@pytest.mark.parametrize(
    ("start", "end", "epochs", "belongs"),
    [
        (14, 150, ((5, 14), (7, 15), (9, 100)), True),  # only its part from epoch 7 on is still compared
        (14, 60, ((5, 14), (7, 15)), True),
        (14, 40, ((5, 14),), False),
        (14, 150, ((5, 14), (7, 15), (9, 101)), False),
    ],
)
def test_a_segment_may_begin_before_the_start_of_the_log(start: int, end: int, epochs: Epochs, belongs: bool) -> None:
    assert Lineage(((7, 51), (9, 100)), 300).contains(segment(1, start, end, epochs)) == belongs


def test_nothing_belongs_to_a_log_without_epochs() -> None:
    assert not Lineage((), 100).contains(segment(1, 0, 9))
    assert Lineage((), 100).copied_up_to(copied(segment(1, 0, 9)), 0) == NOTHING_COPIED


def test_the_copied_offset_is_that_of_the_latest_epoch_that_was_copied() -> None:
    segments = copied(segment(1, 0, 9), segment(2, 10, 65, ((2, 10), (5, 60))))
    assert LOG.copied_up_to(segments, 0) == 65
    assert Lineage(((0, 0), (2, 10), (5, 60)), 64).copied_up_to(segments, 0) == 63
    assert Lineage(((0, 0), (2, 10), (6, 40)), 90).copied_up_to(segments, 0) == 39
    assert Lineage(((1, 0),), 90).copied_up_to(segments, 0) == NOTHING_COPIED


def test_offsets_whose_copies_are_deleted_are_not_copied() -> None:
    """The log begins at 10: the copies of what it still has were deleted while its topic was not tiered."""
    log = Lineage(((0, 0),), 90)
    segments = copied(segment(1, 0, 9), segment(2, 10, 19), segment(3, 20, 29))
    assert segments.update(SegmentUpdate(id_of(1), SegmentState.DELETE_STARTED, 1, 1))
    assert log.copied_up_to(segments, 10) == 29
    assert segments.update(SegmentUpdate(id_of(2), SegmentState.DELETE_STARTED, 1, 1))
    assert log.copied_up_to(segments, 20) == 29
    assert log.copied_up_to(segments, 10) == 9
    assert segments.update(SegmentUpdate(id_of(2), SegmentState.DELETE_FINISHED, 1, 1))
    assert log.copied_up_to(segments, 10) == 9
    assert segments.add(segment(4, 10, 19))
    assert segments.update(SegmentUpdate(id_of(4), SegmentState.COPY_FINISHED, 1, 1))
    assert log.copied_up_to(segments, 10) == 29


def test_the_remote_start_is_the_first_finished_segment() -> None:
    segments = copied(segment(1, 0, 9), segment(2, 10, 19, ((2, 10),)))
    assert LOG.remote_start(segments) == 0
    enter(segments, 1, DELETING)
    assert LOG.remote_start(segments) == 10
    enter(segments, 2, DELETING)
    assert LOG.remote_start(segments) is None


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [(0, 200, LOG.epochs), (5, 60, ((0, 5), (2, 10))), (10, 11, ((2, 10),)), (70, 101, ((5, 70), (7, 100)))],
)
def test_epochs_of_a_range_begin_at_its_start(start: int, end: int, found: Epochs) -> None:
    assert clamped(LOG.epochs, start, end) == found


@pytest.mark.parametrize(("offset", "epoch"), [(0, 0), (9, 0), (10, 2), (99, 5), (150, 7)])
def test_each_offset_has_an_epoch(offset: int, epoch: int) -> None:
    assert LOG.epoch_of(offset) == epoch
    assert LOG.epochs[0][1] <= offset < LOG.end_of(epoch)
    assert Lineage(LOG.epochs[1:], 200).epoch_of(5) is None
