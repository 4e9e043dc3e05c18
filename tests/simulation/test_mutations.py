"""The simulation catches the faults that are planted in the state machines."""

from __future__ import annotations

import pytest

from tests.simulation.mutations import MUTATIONS, Mutation, planted
from tests.simulation.schedule import run
from tests.support.scale import SCALE

#: Enough for the faults that show often; the others need full size.
SCHEDULES = 400 if SCALE <= 1 else 40_000
CHOSEN = [each for each in MUTATIONS if SCALE > 1 or not each.is_rare]


@pytest.mark.parametrize("mutation", CHOSEN, ids=lambda each: each.name)
def test_planted_fault_is_caught(mutation: Mutation) -> None:
    with planted(mutation):
        assert any(run(seed) is not None for seed in range(SCHEDULES))
