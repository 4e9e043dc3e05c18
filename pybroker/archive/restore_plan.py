"""Plan a restore: which rows the target has, which come next, and which keep their offsets. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pybroker.archive.errors import UnusableTarget
from pybroker.archive.journal import RestoreState
from pybroker.archive.manifest import ArchivedRange


class TargetPartition(NamedTuple):
    """A partition of the target: its first offset, and the offset after its last record."""

    partition: int
    earliest: int
    latest: int


@dataclass(frozen=True)
class PartitionPlan:
    """Rows of one partition, numbered from 0 in the order of their offsets.

    Row n belongs to offset `base` + n; the topic has `there` of the `total` rows. To resume, a task reads rows
    from the archived offset `start` on, which is row `index`. Rows below the archived offset `kept_below` keep their
    offsets.
    """

    partition: int
    base: int
    total: int
    there: int
    start: int
    index: int
    kept_below: int
    restored: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether all rows are there and an attempt completed. Otherwise the last row is compared again."""
        return min(self.there, self.restored) >= self.total


def plan_restore(
    ranges: Iterable[ArchivedRange], target: Iterable[TargetPartition], state: RestoreState | None, *, append: bool
) -> list[PartitionPlan]:
    """Return a plan for each partition of an archived topic.

    `state` is the state that earlier attempts left. Errors: UnusableTarget when the target has too few partitions, has
    records that this restore did not write, or has records of other producers after the restored ones.
    """
    by_partition: dict[int, list[ArchivedRange]] = {}
    for each in sorted(ranges):
        by_partition.setdefault(each.partition, []).append(each)
    found = {each.partition: each for each in target}
    if missing := sorted(by_partition.keys() - found.keys()):
        raise UnusableTarget(
            f"the topic has {len(found)} partitions, but partition {missing[-1]} is archived: make it with "
            f"{missing[-1] + 1} at least"
        )
    bases = {} if state is None else state.bases
    restored = {} if state is None else state.restored
    return [
        _plan_partition(own, found[partition], bases.get(partition), restored.get(partition), append=append)
        for partition, own in sorted(by_partition.items())
    ]


def exact_problem(plans: Iterable[PartitionPlan], ends: Mapping[int, int]) -> str | None:
    """Return why some records cannot keep their offsets; None when all can. `ends`: the archive's, by partition."""
    for each in plans:
        if each.kept_below < ends[each.partition]:
            return (
                f"partition {each.partition}: offsets from {each.kept_below} on cannot be kept, since the archive has "
                "gaps, or begins later than the topic does"
            )
    return None


def _plan_partition(
    ranges: list[ArchivedRange],
    target: TargetPartition,
    known_base: int | None,
    restored: int | None,
    *,
    append: bool,
) -> PartitionPlan:
    total = sum(each.records for each in ranges)
    base = target.latest if known_base is None else known_base
    name = f"partition {target.partition}"
    if known_base is None and target.latest > 0 and not append:
        raise UnusableTarget(
            f"{name} has, or had, records before offset {target.latest}, and no restore of this archive was begun "
            "there (--append continues after them)"
        )
    there = target.latest - base
    if there < 0:
        raise UnusableTarget(
            f"{name} ends at offset {target.latest}, but was restored from {base} on: it is another topic"
        )
    if there > total and (restored or 0) < total:
        raise UnusableTarget(
            f"{name} has {there} records from offset {base} on, but {total} are archived: another producer writes there"
        )
    start, index = _resume(ranges, there)
    kept_below = _kept_below(ranges) if base == 0 else 0
    return PartitionPlan(target.partition, base, total, min(there, total), start, index, kept_below, restored or 0)


def _resume(ranges: list[ArchivedRange], there: int) -> tuple[int, int]:
    """Return the start of the range of row `there` - 1, which is compared, and the number of its first row."""
    index = 0
    for each in ranges:
        if index + each.records >= there:
            return each.start, index
        index += each.records
    return ranges[-1].end, index


def _kept_below(ranges: list[ArchivedRange]) -> int:
    """Return the archived offset below which the number of each row is its offset, as far as the ranges show."""
    kept = 0
    for each in ranges:
        if each.start != kept or each.records != each.end - each.start:
            break
        kept = each.end
    return kept
