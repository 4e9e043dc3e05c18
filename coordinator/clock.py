"""The two clock readings that coordinators use. They arrive as arguments: no code here reads a clock."""

from __future__ import annotations

from typing import NamedTuple


class Now(NamedTuple):
    """A moment in two clocks: `wall_ms` (ms since 1970) goes into records, `tick_ms` (monotonic) into deadlines.

    Two clocks, so that a change of the wall clock ends no session early.
    """

    wall_ms: int
    tick_ms: float
