"""A clock that tests can move forward."""

import pytest

from broker.control.clock import AdjustableClock
from runtime.clock import Clock

DAY_MS = 86_400_000


def ahead_ms(clock):
    """Return how far the clock is ahead of the system: time of day and monotonic time, in days."""
    system = Clock()
    return round((clock.now_ms() - system.now_ms()) / DAY_MS), round(
        (clock.monotonic_ms() - system.monotonic_ms()) / DAY_MS
    )


def test_clock_follows_the_system_until_moved():
    """Both readings move by the requested amount."""
    clock = AdjustableClock()
    assert ahead_ms(clock) == (0, 0)
    clock.move_on(8 * DAY_MS)
    clock.move_on(DAY_MS)
    assert ahead_ms(clock) == (9, 9)


def test_clock_without_deadlines_keeps_monotonic_time():
    """Timers that wait for a deadline do not fire."""
    clock = AdjustableClock()
    clock.move_on(8 * DAY_MS, deadlines=False)
    assert ahead_ms(clock) == (8, 0)


def test_clock_does_not_go_back():
    """The broker relies on a monotonic clock."""
    with pytest.raises(ValueError, match="not back"):
        AdjustableClock().move_on(-1)
