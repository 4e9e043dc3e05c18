"""Which remote segments expire: by time, by size, by the log's start, left by failures (KIP-405)."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from tests.unit.tiered.copies import DELETING, copied, enter, segment
from tiered.expiry import RemoteRetention, expired, of_other_lineages, remote_bytes
from tiered.lineage import Lineage
from tiered.segments import RemoteSegments

LOG = Lineage(((0, 0), (2, 20)), 100)
OTHER_BROKER = 8
FOREVER = RemoteRetention()


def three() -> RemoteSegments:
    """Offsets 0 to 29 in segments of 100 bytes, with largest timestamps of 9, 19 and 29 ms."""
    return copied(segment(1, 0, 9), segment(2, 10, 19), segment(3, 20, 29, ((2, 20),)))


def expiry(
    segments: RemoteSegments,
    retention: RemoteRetention = FOREVER,
    *,
    lineage: Lineage = LOG,
    log_start: int = 0,
    only_local: int = 50,
    copying: Collection[bytes] = (),
    now_ms: int = 1000,
) -> tuple[list[int], int | None]:
    found = expired(
        segments,
        lineage,
        retention,
        log_start_offset=log_start,
        only_local_bytes=only_local,
        broker_id=7,
        copying=copying,
        now_ms=now_ms,
    )
    return [each.start_offset for each in found.segments], found.log_start_offset


@pytest.mark.parametrize(
    ("ms", "found"),
    [
        (-1, ([], None)),
        (992, ([], None)),
        (991, ([0], 10)),
        (981, ([0, 10], 20)),
        (0, ([0, 10, 20], 30)),
        (2000, ([], None)),  # more than all of time
    ],
)
def test_segments_expire_by_their_largest_timestamp(ms: int, found: tuple[list[int], int | None]) -> None:
    assert expiry(three(), RemoteRetention(ms=ms)) == found


@pytest.mark.parametrize(
    ("limit", "found"),
    [
        (-1, ([], None)),
        (350, ([], None)),
        (251, ([], None)),
        (250, ([0], 10)),
        (100, ([0, 10], 20)),
        (0, ([0, 10, 20], 30)),
    ],
)
def test_segments_expire_by_the_size_of_both_tiers(limit: int, found: tuple[list[int], int | None]) -> None:
    assert expiry(three(), RemoteRetention(bytes=limit)) == found


def test_what_time_removes_counts_for_the_size() -> None:
    assert expiry(three(), RemoteRetention(ms=991, bytes=250)) == ([0], 10)


def test_segments_before_the_start_of_the_log_expire() -> None:
    lineage = Lineage(((0, 15), (2, 20)), 100)
    assert expiry(three(), lineage=lineage, log_start=15) == ([0], None)
    lineage = Lineage(((2, 20),), 100)
    assert of_other_lineages(three(), lineage) == [each for each in three() if each.start_offset < 20]


def test_a_failed_deletion_is_tried_again() -> None:
    segments = three()
    enter(segments, 2, DELETING)
    assert expiry(segments) == ([10], None)
    assert expiry(segments, RemoteRetention(ms=991)) == ([0, 10], 10)
    enter(segments, 1, DELETING)
    assert expiry(segments) == ([0, 10], None)


def test_an_unfinished_copy_counts_neither_as_size_nor_as_the_start_of_the_log() -> None:
    segments = three()
    own, other = segment(4, 30, 39, ((2, 30),), 1000), segment(5, 0, 5, None, 1000)
    segments.add(own)
    segments.add(other._replace(broker_id=OTHER_BROKER))
    assert remote_bytes(segments, LOG, 0) == 300
    assert expiry(segments, RemoteRetention(bytes=350)) == ([30], None)
    assert expiry(segments, RemoteRetention(ms=0)) == ([0, 10, 20, 30], 30)
    assert expiry(segments, RemoteRetention(ms=0), copying=[own.id]) == ([0, 10, 20], 30)


def test_a_copy_in_progress_ends_the_search() -> None:
    segments = three()
    first = segment(4, 0, 3)
    segments.add(first)
    assert expiry(segments, RemoteRetention(ms=0), copying=[first.id, segment(1, 0, 9).id]) == ([], None)


def test_a_copy_of_another_lineage_ends_the_search_too() -> None:
    """It is finished, and its broker has not noticed yet."""
    segments = copied(segment(1, 30, 39), segment(2, 20, 29, ((2, 20),)))
    assert expiry(segments, RemoteRetention(ms=0), copying=[segment(1, 30, 39).id]) == ([], None)


def test_a_segment_of_other_records_does_not_expire_with_the_log() -> None:
    segments = copied(
        segment(1, 0, 9), segment(2, 10, 25, ((1, 10),)), segment(3, 10, 19), segment(4, 20, 29, ((2, 20),))
    )
    assert expiry(segments, RemoteRetention(ms=0)) == ([0, 10, 20], 30)


def test_a_segment_of_two_epochs_expires_once() -> None:
    segments = copied(segment(1, 0, 29, ((0, 0), (2, 20))))
    assert expiry(segments, RemoteRetention(ms=0)) == ([0], 30)


def test_a_log_without_epochs_has_nothing_to_expire() -> None:
    lineage = Lineage((), 0)
    assert expiry(three(), RemoteRetention(ms=0), lineage=lineage) == ([], None)
    assert of_other_lineages(three(), lineage) == []
