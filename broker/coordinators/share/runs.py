"""Runs of records in flight with the same state, the batches in which they were acquired, and changes to them.

| state | next |
|---|---|
| available | acquired: delivered once more |
| acquired | by its member: acknowledged, archived (rejected, a gap), available (released); by time: available |
| archiving | archived: its dead letter is in the queue, or cannot be written (KIP-1191) |
| acknowledged, archived | none: the start offset moves over them |

A record that has reached its delivery limit is archived instead of becoming available again. If the group has a
dead-letter queue, such a record and a rejected one are archiving first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

import msgspec


class RecordState(IntEnum):
    """The state of a record. The values are those in the share coordinator's log."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4


#: States that are final.
DONE = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


class Run(msgspec.Struct):
    """Adjacent records with the same state. While acquired: `member_id` has them until `deadline_ms`."""

    first: int
    last: int
    state: RecordState
    count: int
    member_id: str = ""
    deadline_ms: float = 0


def _first(run: Run) -> int:
    return run.first


class Batch(msgspec.Struct):
    """Records that were first acquired together. `is_split`: at some time they had different states.

    `is_gap`: they lie between stored batches, and were not acquired yet when the state was loaded.
    """

    first: int
    last: int
    runs: list[Run]
    is_split: bool = False
    is_gap: bool = False

    @property
    def is_untouched_gap(self) -> bool:
        """Whether the records lie between stored ones, and none was acquired since."""
        return self.is_gap and not any(run.count for run in self.runs)

    def between(self, first: int, last: int) -> Sequence[Run]:
        """Return the runs that have records from `first` to `last`."""
        begin = max(self._place(first), 0)
        if self.runs[begin].last < first:
            begin += 1
        return self.runs[begin : self._place(last) + 1]

    def cut(self, offset: int) -> None:
        """Split a run so that one begins at `offset`."""
        place = self._place(offset)
        run = self.runs[place]
        if place >= 0 and run.first < offset <= run.last:
            self.runs.insert(place + 1, Run(offset, run.last, run.state, run.count, run.member_id, run.deadline_ms))
            run.last = offset - 1
            self.is_split = True

    def _place(self, offset: int) -> int:
        """Return the index of the last run that begins at or before `offset`; -1 if there is none."""
        return bisect_right(self.runs, offset, key=_first) - 1

    def join(self) -> None:
        """Merge adjacent runs with the same state."""
        joined: list[Run] = []
        for run in self.runs:
            last = joined[-1] if joined else None
            if (
                last is not None
                and last.last + 1 == run.first
                and (last.state, last.count, last.member_id, last.deadline_ms)
                == (run.state, run.count, run.member_id, run.deadline_ms)
            ):
                last.last = run.last
            else:
                joined.append(run)
        self.runs = joined


class Change(NamedTuple):
    """A new state for a run, or for a part of one. `rejected`: a member has rejected the records."""

    batch: Batch
    first: int
    last: int
    state: RecordState
    delivery_count: int
    rejected: bool = False


class Buried(NamedTuple):
    """Adjacent records that are archiving for the same reason. `is_batch`: a whole batch as it was acquired."""

    first: int
    last: int
    delivery_count: int
    rejected: bool
    is_batch: bool


def buried(changes: Iterable[Change]) -> list[Buried]:
    """Return the records that become archiving, in order; adjacent ones that are alike together, but batches apart.

    The changes have been applied: a batch that one of them has split is not whole.
    """
    found: list[Buried] = []
    for batch, first, last, state, count, rejected in sorted(changes, key=lambda change: change.first):
        if state is RecordState.ARCHIVING:
            if batch.is_split and found and found[-1][1:] == (first - 1, count, rejected, False):
                found[-1] = found[-1]._replace(last=last)
            else:
                found.append(Buried(first, last, count, rejected, is_batch=not batch.is_split))
    return found
