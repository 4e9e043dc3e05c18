"""A clock that is moved on."""

import pytest

from broker.control.clock import AdjustableClock
from runtime.clock import Clock

DAY_MS = 86_400_000


def ahead_ms(clock):
    """How far a clock is ahead of the system's, of the time of day and of the monotonic one, in days."""
    system = Clock()
    return round((clock.now_ms() - system.now_ms()) / DAY_MS), round(
        (clock.monotonic_ms() - system.monotonic_ms()) / DAY_MS
    )


def test_it_goes_as_the_systems_does_until_it_is_moved():
    """Both of its readings, then by as much as was asked for."""
    clock = AdjustableClock()
    assert ahead_ms(clock) == (0, 0)
    clock.move_on(8 * DAY_MS)
    clock.move_on(DAY_MS)
    assert ahead_ms(clock) == (9, 9)


def test_without_deadlines_it_is_only_later_in_the_day():
    """Who waits for a deadline waits on."""
    clock = AdjustableClock()
    clock.move_on(8 * DAY_MS, deadlines=False)
    assert ahead_ms(clock) == (8, 0)


def test_it_does_not_go_back():
    """Everything relies on that of the monotonic one."""
    with pytest.raises(ValueError, match="not back"):
        AdjustableClock().move_on(-1)
