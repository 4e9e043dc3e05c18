"""Records in flight that are alike, by the run: their state, the batch in which they were acquired, changes to come.

| state | next |
|---|---|
| available | acquired: delivered once more |
| acquired | by its member: acknowledged, archived (rejected, a gap), available (released); by time: available |
| acknowledged, archived | none: the start offset moves over them |

What was delivered as often as it may be is archived where it would become available again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import msgspec


class RecordState(IntEnum):
    """The values are those in the log of the share coordinator."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


#: States that are final.
DONE = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


class Run(msgspec.Struct):
    """Neighbours that are alike. `member_id`, `deadline_ms`: who has them, and until when; while acquired."""

    first: int
    last: int
    state: RecordState
    count: int
    member_id: str = ""
    deadline_ms: float = 0


def _first(run: Run) -> int:
    return run.first


class Batch(msgspec.Struct):
    """Records that were acquired together first. `is_split`: they have not always been alike."""

    first: int
    last: int
    runs: list[Run]
    is_split: bool = False

    def between(self, first: int, last: int) -> Sequence[Run]:
        """The runs that have records from `first` to `last`."""
        begin = max(self._place(first), 0)
        if self.runs[begin].last < first:
            begin += 1
        return self.runs[begin : self._place(last) + 1]

    def cut(self, offset: int) -> None:
        """Have a run begin at `offset`."""
        place = self._place(offset)
        run = self.runs[place]
        if place >= 0 and run.first < offset <= run.last:
            self.runs.insert(place + 1, Run(offset, run.last, run.state, run.count, run.member_id, run.deadline_ms))
            run.last = offset - 1
            self.is_split = True

    def _place(self, offset: int) -> int:
        """Of the last run that begins at `offset` or before; -1 where none does."""
        return bisect_right(self.runs, offset, key=_first) - 1

    def join(self) -> None:
        """Make one of neighbours that are alike."""
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
    """A run, or a part of one, that is to have another state."""

    batch: Batch
    first: int
    last: int
    state: RecordState
    delivery_count: int
