"""Leader epochs that a log has lost come from the copies of its segments."""

from __future__ import annotations

from tests.unit.tiered.copies import STARTED, copied, id_of, segment
from tiered.lineage import Lineage, with_epochs_of_copies
from tiered.segment import RemoteSegment

COPIES = (
    segment(1, 0, 9, ((0, 0),)),
    segment(2, 10, 19, ((0, 10), (2, 15))),
    segment(3, 20, 29, ((2, 20),)),
    segment(4, 30, 39, ((2, 30), (3, 35))),
)


def restored(*copies: RemoteSegment, start: int = 0, epochs: tuple[tuple[int, int], ...] = ((3, 40),)) -> object:
    return with_epochs_of_copies(copied(*copies), Lineage(epochs, 50), start)


def test_epochs_reach_back_to_the_log_start() -> None:
    assert restored(*COPIES) == ((0, 0), (2, 15), (3, 35))
    assert restored(*COPIES, start=12) == ((0, 12), (2, 15), (3, 35))
    assert restored(*COPIES, start=17) == ((2, 17), (3, 35))


def test_later_local_epochs_stay() -> None:
    assert restored(*COPIES, epochs=((3, 40), (7, 45))) == ((0, 0), (2, 15), (3, 35), (7, 45))
    assert restored(*COPIES, epochs=((5, 40),)) == ((0, 0), (2, 15), (3, 35), (5, 40))


def test_copies_that_overlap_the_disk_count_below_it() -> None:
    assert restored(*COPIES, epochs=((2, 32), (3, 35))) == ((0, 0), (2, 15), (3, 35))


def test_complete_epochs_stay_as_they_are() -> None:
    assert restored(*COPIES, epochs=((1, 0), (3, 40))) == ((1, 0), (3, 40))
    assert restored(*COPIES, epochs=()) == ()
    assert restored() == ((3, 40),)


def test_gap_ends_the_walk() -> None:
    assert restored(*COPIES[:2], COPIES[3]) == ((2, 30), (3, 35))


def test_later_epochs_are_of_another_leader() -> None:
    assert restored(*COPIES, epochs=((1, 40),)) == ((1, 40),)


def test_two_lineages_at_one_offset_are_not_guessed() -> None:
    """An unclean election has lost one of them."""
    other = segment(5, 20, 29, ((1, 20),))
    assert restored(*COPIES, other) == ((2, 30), (3, 35))


def test_unfinished_copies_do_not_count() -> None:
    segments = copied(*COPIES[1:])
    assert segments.add(COPIES[0]._replace(id=id_of(9), state=STARTED))
    assert with_epochs_of_copies(segments, Lineage(((3, 40),), 50), 0) == ((0, 10), (2, 15), (3, 35))
