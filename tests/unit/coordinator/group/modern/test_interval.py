"""The interval between two targets of a group."""

from __future__ import annotations

import pytest

from coordinator.group.modern.interval import is_too_early

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("last_ms", "interval_ms", "early"),
    [
        (0, 1_000, False),  # there is none
        (NOW_MS, 1_000, True),
        (NOW_MS - 999, 1_000, True),
        (NOW_MS - 1_000, 1_000, False),
        (NOW_MS, 0, False),
        (NOW_MS + HOUR_MS, 1_000, False),  # the clock was set back
    ],
)
def test_targets_wait_for_their_interval(last_ms: int, interval_ms: int, early: bool) -> None:
    assert is_too_early(last_ms, interval_ms, NOW_MS) is early
