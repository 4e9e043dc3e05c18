"""The simulation catches the faults that are planted in the state machines."""

from __future__ import annotations

import pytest

from tests.simulation.mutations import MUTATIONS, Mutation, planted
from tests.simulation.schedule import many, replay
from tests.simulation.scripts import scripts
from tests.support.scale import SCALE

SCHEDULES = 400 if SCALE <= 1 else 40_000
#: Rare faults have a script; at full size schedules must find them, too.
CHOSEN = [each for each in MUTATIONS if SCALE > 1 or not each.is_rare]


def name_of(mutation: Mutation) -> str:
    return mutation.name


@pytest.mark.parametrize("mutation", CHOSEN, ids=name_of)
def test_planted_fault_is_caught(mutation: Mutation) -> None:
    with planted(mutation), many():
        assert any(mutation.run(seed) is not None for seed in mutation.seeds(range(SCHEDULES)))


@pytest.mark.parametrize("mutation", [each for each in MUTATIONS if each.is_rare], ids=name_of)
def test_script_of_a_rare_fault(mutation: Mutation) -> None:
    """The script fails with the fault, and only with it."""
    config, steps = scripts()[mutation.name]
    assert replay(config, steps) is None
    with planted(mutation):
        assert replay(config, steps) is not None


@pytest.mark.parametrize("name", list(scripts()))
def test_script_holds_with_each_controller(name: str) -> None:
    config, steps = scripts()[name]
    assert replay(config._replace(own_controller=not config.own_controller), steps) is None
