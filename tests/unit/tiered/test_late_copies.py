"""Copies that a former leader finishes late, when the next one has copied the same records with other borders."""

from __future__ import annotations

from itertools import permutations

import pytest

from tests.unit.tiered.copies import FINISHED, enter, segment
from tiered.expiry import RemoteRetention, expired
from tiered.lineage import Lineage
from tiered.segment import RemoteSegment
from tiered.segments import RemoteSegments


def finished_in(copies: list[RemoteSegment], order: tuple[int, ...]) -> RemoteSegments:
    """Begin all copies, and finish them in this order."""
    segments = RemoteSegments()
    for each in copies:
        segments.add(each)
    for number in order:
        assert enter(segments, number, FINISHED)
    return segments


def kept(segments: RemoteSegments, lineage: Lineage) -> list[RemoteSegment]:
    """Return what is not deleted while nothing expires."""
    found = expired(
        segments,
        lineage,
        RemoteRetention(),
        log_start_offset=0,
        only_local_bytes=0,
        broker_id=7,
        copying=(),
        now_ms=0,
    )
    assert found.log_start_offset is None
    doomed = {each.id for each in found.segments}
    return [each for each in segments if each.id not in doomed]


@pytest.mark.parametrize("order", list(permutations((1, 2, 3))))
def test_each_record_stays_in_one_copy(order: tuple[int, ...]) -> None:
    """One leader copied offsets 0 to 9 together, the next one in two segments."""
    segments = finished_in([segment(1, 0, 9), segment(2, 0, 4), segment(3, 5, 9)], order)
    left = kept(segments, Lineage(((0, 0),), 100))
    assert {offset for each in left for offset in range(each.start_offset, each.end_offset + 1)} == set(range(10))


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_copy_of_another_lineage_replaces_nothing(order: tuple[int, ...]) -> None:
    """After an unclean election offsets 10 to 19 have other records, of a later epoch."""
    segments = finished_in([segment(1, 0, 19), segment(2, 0, 9)], order)
    assert 2 in [each for each in (1, 2) if segment(each, 0, 9).id in {every.id for every in kept(segments, FORKED)}]


FORKED = Lineage(((0, 0), (1, 10)), 100)


def test_overlap_at_the_end_is_not_enough() -> None:
    segments = finished_in([segment(1, 0, 9), segment(2, 5, 9)], (1, 2))
    assert not segments.is_replaced(segment(1, 0, 9))


def test_copy_with_the_same_start_is_still_listed() -> None:
    """So that it expires, too."""
    segments = finished_in([segment(1, 0, 9), segment(2, 0, 4)], (1, 2))
    assert len(segments.of_epoch(0)) == 2
