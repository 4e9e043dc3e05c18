"""Makes a failing schedule short: drops steps while the same check fails (delta debugging)."""

from __future__ import annotations

from tests.simulation.schedule import Failure, replay

#: Replays of one schedule.
MOST_REPLAYS = 3000


def shrink(failure: Failure) -> Failure:
    """Return a failure of the same check with fewer steps."""
    steps, replays = failure.steps, 0
    size = max(1, len(steps) // 2)
    while True:
        first, is_shorter = 0, False
        while first < len(steps):
            shorter = steps[:first] + steps[first + size :]
            replays += 1
            found = replay(failure.config, shorter)
            if found is not None and found[0] == failure.check:
                steps, is_shorter = shorter, True
                failure = failure._replace(steps=shorter, message=found[1])
            else:
                first += size
            if replays > MOST_REPLAYS:
                return failure
        if size == 1 and not is_shorter:
            return failure
        size = max(1, size // 2)
