"""How often the targets of a group are computed: not more often than its assignment interval says."""

from __future__ import annotations


def is_too_early(last_ms: int, interval_ms: int, now_ms: int) -> bool:
    """Whether the next target has to wait, so that members that come at once are dealt with together.

    `last_ms`: when the last one was computed, by the wall clock, as its record has it; 0 where there is none. One from
    the future was computed before the clock was set back. Apache Kafka waits until that time has come, for an hour
    perhaps; nobody waits for it here.
    """
    return 0 < last_ms <= now_ms < last_ms + interval_ms
