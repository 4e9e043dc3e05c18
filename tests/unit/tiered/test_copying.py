"""Which segments are copied now: closed, stable, not copied, and old or large enough (KIP-405, KIP-1241)."""

from __future__ import annotations

import pytest

from tiered.copying import CopyLag, LocalSegment, due_for_copying

#: Four closed segments of 10 offsets and 100 bytes, with largest timestamps of 1,000, 2,000, 3,000 and 4,000 ms.
CLOSED = [LocalSegment(start, start + 9, 100, 1000 + start * 100) for start in (0, 10, 20, 30)]
AT_ONCE = CopyLag()


def due(
    *, copied: int = -1, log_start: int = 0, safe: int = 40, lag: CopyLag = AT_ONCE, now_ms: int = 5000
) -> list[int]:
    found = due_for_copying(
        CLOSED,
        copied_offset=copied,
        log_start_offset=log_start,
        safe_offset=safe,
        active_bytes=50,
        lag=lag,
        now_ms=now_ms,
    )
    return [segment.start_offset for segment in found]


def test_all_that_is_closed_and_safe_is_due_at_once() -> None:
    assert due() == [0, 10, 20, 30]


@pytest.mark.parametrize(("safe", "found"), [(40, [0, 10, 20, 30]), (39, [0, 10, 20]), (10, [0]), (9, []), (0, [])])
def test_a_segment_waits_until_all_of_it_is_safe(safe: int, found: list[int]) -> None:
    assert due(safe=safe) == found


@pytest.mark.parametrize(
    ("copied", "log_start", "found"),
    [(9, 0, [10, 20, 30]), (-1, 10, [10, 20, 30]), (-1, 15, [10, 20, 30]), (29, 5, [30]), (39, 0, [])],
)
def test_what_is_copied_or_deleted_is_not_due(copied: int, log_start: int, found: list[int]) -> None:
    assert due(copied=copied, log_start=log_start) == found


@pytest.mark.parametrize(
    ("lag", "found"),
    [
        (CopyLag(ms=0, bytes=-1), [0, 10, 20, 30]),
        (CopyLag(ms=-1, bytes=0), [0, 10, 20, 30]),
        (CopyLag(ms=-1, bytes=-1), []),
        (CopyLag(ms=3000, bytes=-1), [0, 10]),
        (CopyLag(ms=3001, bytes=-1), [0]),
        (CopyLag(ms=-1, bytes=150), [0, 10, 20]),
        (CopyLag(ms=-1, bytes=151), [0, 10]),
        (CopyLag(ms=3000, bytes=150), [0, 10, 20]),
    ],
)
def test_copies_may_lag_by_time_or_by_size(lag: CopyLag, found: list[int]) -> None:
    assert due(lag=lag) == found


def test_a_segment_from_the_future_does_not_wait() -> None:
    assert due(lag=CopyLag(ms=10_000), now_ms=500) == [0, 10, 20, 30]
