"""G2 compares a fetched offset with those that the same coordinator, or an earlier one, has acknowledged."""

from __future__ import annotations

import pytest

from tests.simulation.coordination.checks import TransactionChecks
from tests.simulation.coordination.image import Places
from tests.simulation.violation import Violation

#: Offsets 5 and 6 of a group, whose records are at 0 and 1. Leaders of epochs 1 and 2 have acknowledged them.
NONE = -1


@pytest.fixture
def checks() -> TransactionChecks:
    made = TransactionChecks(Places(3))
    for offset, place in ((5, (0, 1)), (6, (1, 2))):
        made._records[offset] = place
        made.commit_was_answered("g", offset)
    return made


@pytest.mark.parametrize(("offset", "epoch"), [(6, 2), (6, 3), (5, 1), (NONE, 0)])
def test_newest_offset_of_the_coordinator(checks: TransactionChecks, offset: int, epoch: int) -> None:
    checks.offset_was_fetched("g", offset, checks.newest_acknowledged("g"), epoch)


@pytest.mark.parametrize(("offset", "epoch"), [(5, 2), (5, 3), (NONE, 1), (NONE, 2)])
def test_older_offset_is_found(checks: TransactionChecks, offset: int, epoch: int) -> None:
    with pytest.raises(Violation, match="was acknowledged"):
        checks.offset_was_fetched("g", offset, checks.newest_acknowledged("g"), epoch)
