"""The rows that a restore writes next, and those that keep their offsets."""

from __future__ import annotations

import pytest

from pybroker.archive.errors import UnusableTarget
from pybroker.archive.journal import RestoreState
from pybroker.archive.manifest import ArchivedRange
from pybroker.archive.restore_plan import PartitionPlan, TargetPartition, exact_problem, plan_restore

#: 10 rows at 0 to 9, 5 somewhere in 10 to 19, 10 at 20 to 29.
RANGES = [
    ArchivedRange("orders", 0, 0, 10, 10, 0),
    ArchivedRange("orders", 0, 10, 20, 5, 0),
    ArchivedRange("orders", 0, 20, 30, 10, 0),
]


def begun(base: int, restored: int | None = None) -> RestoreState:
    """Return a restore that began at an offset and is perhaps complete."""
    done = {} if restored is None else {0: restored}
    return RestoreState("orders", "back", "cluster", (7, 0), {0: base}, done)


def plan(latest: int, state: RestoreState | None = None, *, append: bool = False) -> PartitionPlan:
    [planned] = plan_restore(RANGES, [TargetPartition(0, 0, latest)], state, append=append)
    return planned


def test_empty_partition_gets_all_rows() -> None:
    planned = plan(0)

    assert planned == PartitionPlan(0, base=0, total=25, there=0, start=0, index=0, kept_below=10)
    assert not planned.is_complete


@pytest.mark.parametrize(
    ("there", "start", "index"),
    [(1, 0, 0), (10, 0, 0), (11, 10, 10), (15, 10, 10), (16, 20, 15), (24, 20, 15), (25, 20, 15)],
)
@pytest.mark.parametrize("base", [0, 100])
def test_restore_resumes_in_the_range_of_the_last_row(base: int, there: int, start: int, index: int) -> None:
    """So that this row can be compared."""
    planned = plan(base + there, begun(base))

    assert (planned.there, planned.start, planned.index) == (there, start, index)
    assert not planned.is_complete
    assert plan(base + there, begun(base, 25)).is_complete == (there == 25)
    assert planned.kept_below == (10 if base == 0 else 0)


def test_partition_with_records_needs_confirmation() -> None:
    with pytest.raises(UnusableTarget, match="--append"):
        plan(3)
    assert plan(3, append=True).base == 3


def test_foreign_records_are_allowed_once_complete() -> None:
    """Not before."""
    assert plan(26, begun(0, 25)).is_complete
    with pytest.raises(UnusableTarget, match="another producer writes there"):
        plan(26, begun(0))
    with pytest.raises(UnusableTarget, match="another producer writes there"):
        plan(26, begun(0, 15))


def test_partition_that_ends_before_its_restore_is_another() -> None:
    with pytest.raises(UnusableTarget, match="another topic"):
        plan(3, begun(4))


def test_topic_with_too_few_partitions_is_refused() -> None:
    ranges = [*RANGES, ArchivedRange("orders", 4, 0, 10, 10, 0)]
    with pytest.raises(UnusableTarget, match="make it with 5 at least"):
        plan_restore(ranges, [TargetPartition(0, 0, 0)], None, append=False)


def test_offsets_are_kept_up_to_the_first_gap() -> None:
    full = [each._replace(records=10) for each in RANGES]
    target = [TargetPartition(0, 0, 0)]
    whole = plan_restore(full, target, None, append=False)
    late = plan_restore(full[1:], target, None, append=False)

    assert whole[0].kept_below == 30
    assert exact_problem(whole, {0: 30}) is None
    assert late[0].kept_below == 0
    assert "offsets from 0 on cannot be kept" in str(exact_problem(late, {0: 30}))
    assert "offsets from 10 on cannot be kept" in str(exact_problem([plan(0)], {0: 30}))
