"""The shortest interval between two computations of a group's targets."""

from __future__ import annotations


def is_too_early(last_ms: int, interval_ms: int, now_ms: int) -> bool:
    """Return whether the next target has to wait, so that one computation serves members that join at the same time.

    `last_ms`: the wall clock of the last computation, from its record; 0 if there is none. A time in the future means
    that the clock was set back since. Apache Kafka then waits until that time, perhaps for an hour; this broker does
    not wait.
    """
    return 0 < last_ms <= now_ms < last_ms + interval_ms
