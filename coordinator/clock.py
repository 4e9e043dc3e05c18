"""The two readings of time that coordinators work with; they arrive as arguments, nothing here asks a clock."""

from __future__ import annotations

from typing import NamedTuple


class Now(NamedTuple):
    """One moment: `wall_ms` (since 1970) goes into records, `tick_ms` (monotonic) into deadlines.

    Sessions must not end early because someone set the wall clock.
    """

    wall_ms: int
    tick_ms: float
