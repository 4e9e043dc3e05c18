"""The table of transitions."""

import pytest

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.state import LEGAL_FROM, GroupState, IllegalTransition


def test_every_state_is_in_the_table_and_has_kafkas_name():
    assert set(LEGAL_FROM) == set(GroupState)
    assert [state.value for state in GroupState] == [
        "Empty",
        "PreparingRebalance",
        "CompletingRebalance",
        "Stable",
        "Dead",
    ]


@pytest.mark.parametrize("target", GroupState)
@pytest.mark.parametrize("state", GroupState)
def test_move_to_follows_the_table(state, target):
    """Exactly the transitions of the table are allowed; others raise and change nothing."""
    group = ClassicGroup("g", 1)
    group.state = state
    if state in LEGAL_FROM[target]:
        group.move_to(target, 2)
        assert (group.state, group.previous_state, group.state_timestamp_ms) == (target, state, 2)
    else:
        with pytest.raises(IllegalTransition) as caught:
            group.move_to(target, 2)
        assert (caught.value.group_id, caught.value.state, caught.value.target) == ("g", state, target)
        assert (group.state, group.state_timestamp_ms) == (state, 1)
