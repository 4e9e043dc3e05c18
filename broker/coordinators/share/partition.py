"""A share-partition: the records in flight between its start offset and its end offset, and each one's state.

Pure: time, limits and the share coordinator's answers are arguments. Records in flight form batches, as they were first
acquired. Each batch consists of runs of records with the same state. So the work is by run, not by record.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from broker.coordinators.share.acknowledgement import (
    Acknowledge,
    Acknowledged,
    bad_state,
    by_type,
    changes_of,
    invalid,
)
from broker.coordinators.share.acquisition import (
    Acquired,
    AcquireRequest,
    acquire_again,
    acquire_new,
)
from broker.coordinators.share.limits import Limits
from broker.coordinators.share.runs import (
    DONE,
    Batch,
    Change,
    RecordState,
    Run,
)
from coordinator.share.state import UNINITIALIZED, ShareState, StateBatch

#: States of records in the share coordinator's log.
_STORED_STATES = {
    0: RecordState.AVAILABLE,
    2: RecordState.ACKNOWLEDGED,
    3: RecordState.ARCHIVING,
    4: RecordState.ARCHIVED,
}


class InFlight:
    """The records in flight. `start_offset`: the first record that is not final; `end_offset`: behind the last."""

    __slots__ = ("_batches", "end_offset", "start_offset")

    def __init__(self, state: ShareState, start_offset: int) -> None:
        """Begin at `start_offset` if the state has no start offset yet."""
        self.start_offset = start_offset if state.start_offset == UNINITIALIZED else state.start_offset
        self.end_offset = self.start_offset
        self._batches: list[Batch] = []
        for first, last, stored, count in state.batches:
            known = _STORED_STATES.get(stored, RecordState.AVAILABLE)
            self._batches.append(Batch(first, last, [Run(first, last, known, count)]))
            self.end_offset = max(self.end_offset, last + 1)
        self._fill_gaps()
        self._move_start()

    def _fill_gaps(self) -> None:
        """Make records between stored batches available: they were acquired, but that was never written."""
        filled: list[Batch] = []
        following = self.start_offset
        for batch in self._batches:
            if following < batch.first:
                run = Run(following, batch.first - 1, RecordState.AVAILABLE, 0)
                filled.append(Batch(run.first, run.last, [run], is_gap=True))
            filled.append(batch)
            following = batch.last + 1
        self._batches = filled

    # -- state ------------------------------------------------------------------------------------------------------

    def runs(self) -> Iterator[tuple[Batch, Run]]:
        """Yield all runs in flight, in order, with their batches."""
        for batch in self._batches:
            for run in batch.runs:
                yield batch, run

    @property
    def fetch_offset(self) -> int:
        """The first offset that may be acquired: of an available record in flight, or else the end offset."""
        for _, run in self.runs():
            if run.state is RecordState.AVAILABLE:
                return run.first
        return self.end_offset

    @property
    def is_in_use(self) -> bool:
        """Whether a member has acquired records, or dead letters are being written."""
        return any(run.state in (RecordState.ACQUIRED, RecordState.ARCHIVING) for _, run in self.runs())

    @property
    def in_flight_count(self) -> int:
        """The number of records from the first to the last that is not final, as Kafka counts it."""
        return self.end_offset - self.start_offset

    @property
    def complete_count(self) -> int:
        """The number of records in flight that are acknowledged or archived."""
        return sum(run.last - run.first + 1 for _, run in self.runs() if run.state in DONE)

    def next_deadline_ms(self) -> float | None:
        """The time at which the first lock ends."""
        return min((run.deadline_ms for _, run in self.runs() if run.state is RecordState.ACQUIRED), default=None)

    # -- acquiring --------------------------------------------------------------------------------------------------

    def acquire(
        self, log_batches: Sequence[tuple[int, int]], wanted: AcquireRequest, limits: Limits, now_ms: float
    ) -> list[Acquired]:
        """Acquire available records for a member, among those that were read.

        `log_batches`: (first offset, last offset) of each batch that was read from the log, in order. It includes
        control batches: their offsets are acquired, and clients acknowledge them as gaps.
        """
        acquired: list[Acquired] = []
        if not log_batches:
            return acquired
        first, last = max(log_batches[0][0], self.start_offset), log_batches[-1][1]
        left = wanted.max_records
        deadline_ms = now_ms + limits.lock_duration_ms
        for batch in self._batches:
            if left <= 0 or batch.first > last:
                break
            if batch.last < first:
                continue
            taken, is_throttled = acquire_again(
                batch, first, last, left, wanted, limits, deadline_ms, is_first=not acquired
            )
            acquired += taken
            left -= sum(each.last_offset - each.first_offset + 1 for each in taken)
            if is_throttled:
                return acquired
        if left > 0 and last >= self.end_offset:
            acquired += self._acquire_new(log_batches, left, wanted, limits, deadline_ms)
        return acquired

    def _acquire_new(
        self,
        log_batches: Sequence[tuple[int, int]],
        left: int,
        wanted: AcquireRequest,
        limits: Limits,
        deadline_ms: float,
    ) -> list[Acquired]:
        """Acquire records from the end offset on."""
        room = limits.record_locks - self.in_flight_count
        taken = acquire_new(log_batches, self.end_offset, left, room, wanted)
        for first, last, _ in taken:
            if first > self.end_offset:  # a gap in the log: there are no records to deliver
                gap = Run(self.end_offset, first - 1, RecordState.ARCHIVED, 0)
                self._batches.append(Batch(gap.first, gap.last, [gap]))
            runs = [Run(first, last, RecordState.ACQUIRED, 1, wanted.member_id, deadline_ms)]
            end = next(log_last for _, log_last in log_batches if log_last >= last) if wanted.exact else last
            if end > last:  # the rest of the log's batch is in flight, too, but was not delivered
                runs.append(Run(last + 1, end, RecordState.AVAILABLE, 0))
            self._batches.append(Batch(first, end, runs, len(runs) > 1))
            self.end_offset = end + 1
        if taken:
            self._move_start()
        return taken

    # -- acknowledging ----------------------------------------------------------------------------------------------

    def plan(
        self, member_id: str, batches: Iterable[Acknowledged], limits: Limits, *, may_renew: bool = True
    ) -> tuple[list[Change], list[Change]]:
        """Return the changes that a member's acknowledgements cause, and the locks they renew, without applying them.

        Raises Refused: INVALID_REQUEST, INVALID_RECORD_STATE. Then no acknowledgement counts.
        """
        changes: list[Change] = []
        renewals: list[Change] = []
        planned = -1  # the last record of `changes`
        for acknowledged in batches:
            first, last, _ = acknowledged
            if last < self.start_offset:
                continue
            if not self._batches:
                raise bad_state("Batch record not found. The request batch offsets are not found in the cache.")
            end_offset = self._known_end(last)
            if first >= end_offset:
                raise invalid("Batch record not found. The first offset in request is past acquired records.")
            if last >= end_offset:
                raise invalid("Batch record not found. The last offset in request is past acquired records.")
            for begin, end, kind in by_type(acknowledged, self.start_offset):
                for batch in self._between(begin, end):
                    for change in changes_of(batch, member_id, begin, end, kind, limits):
                        if change.first <= planned and _is_among(change, changes):
                            raise bad_state("The offset cannot be acknowledged. The offset is not acquired.")
                        if kind is Acknowledge.RENEW:
                            if not may_renew:
                                raise bad_state("Renewing acquisition locks is not enabled for the group.")
                            renewals.append(change)
                        else:
                            changes.append(change)
                            planned = max(planned, change.last)
        return changes, renewals

    def _known_end(self, last: int) -> int:
        """Return the end of the last batch, among those up to an offset, that Kafka has in its cache.

        Records between stored batches are in the cache once they are acquired. Those before the first one are other:
        Kafka refuses them for their state.
        """
        place = bisect_right(self._batches, last, key=lambda batch: batch.first) - 1
        while place > 0 and self._batches[place].is_untouched_gap:
            place -= 1
        return self._batches[place].last + 1

    def _between(self, first: int, last: int) -> Iterator[Batch]:
        place = max(bisect_right(self._batches, first, key=lambda batch: batch.first) - 1, 0)
        for batch in self._batches[place:]:
            if batch.first > last:
                return
            if batch.last >= first:
                yield batch

    def given_back(self, limits: Limits, *, member_id: str | None = None, now_ms: float = 0) -> list[Change]:
        """Return the changes when a member leaves or, without a member, when locks have ended by `now_ms`."""
        changes = []
        for batch, run in self.runs():
            if run.state is RecordState.ACQUIRED and (
                run.member_id == member_id if member_id is not None else run.deadline_ms <= now_ms
            ):
                state = limits.exhausted if run.count >= limits.delivery_count else RecordState.AVAILABLE
                changes.append(Change(batch, run.first, run.last, state, run.count))
        return changes

    def available_between(self, first: int, last: int) -> list[Change]:
        """Return the changes when the log has lost these records: those that are available become archived."""
        return [
            Change(batch, max(run.first, first), min(run.last, last), RecordState.ARCHIVED, run.count)
            for batch, run in self.runs()
            if run.state is RecordState.AVAILABLE and run.last >= first and run.first <= last
        ]

    def withdrawn(self, member_id: str, first: int, last: int) -> list[Change]:
        """Return the changes that archive records acquired for a member, so that no member receives them."""
        return [
            Change(batch, max(run.first, first), min(run.last, last), RecordState.ARCHIVED, run.count)
            for batch, run in self.runs()
            if run.state is RecordState.ACQUIRED
            and run.member_id == member_id
            and run.last >= first
            and run.first <= last
        ]

    def archiving_between(self, first: int, last: int) -> list[Change]:
        """Return the changes that end the archiving of records: their dead letters are done."""
        return [
            Change(batch, max(run.first, first), min(run.last, last), RecordState.ARCHIVED, run.count)
            for batch, run in self.runs()
            if run.state is RecordState.ARCHIVING and run.last >= first and run.first <= last
        ]

    # -- change -----------------------------------------------------------------------------------------------------

    def stored(self, changes: Sequence[Change]) -> tuple[int, tuple[StateBatch, ...]]:
        """Return what the share coordinator has to store: the count of records that become final, and the batches."""
        done = sum(change.last - change.first + 1 for change in changes if change.state in DONE)
        batches: list[StateBatch] = []
        for change in sorted(changes, key=lambda change: change.first):
            last = batches[-1] if batches else None
            if last is not None and last[1:] == (change.first - 1, change.state, change.delivery_count):
                batches[-1] = last._replace(last_offset=change.last)
            else:
                batches.append(StateBatch(change.first, change.last, change.state.value, change.delivery_count))
        return self.complete_count + done, tuple(batches)

    def apply(self, changes: Iterable[Change]) -> None:
        """Apply changes that the share coordinator has stored."""
        touched: dict[int, Batch] = {}
        for batch, first, last, state, *_ in changes:
            batch.cut(first)
            batch.cut(last + 1)
            for run in batch.between(first, last):
                run.state, run.member_id, run.deadline_ms = state, "", 0
            touched[batch.first] = batch
        for batch in touched.values():
            batch.join()
        self._move_start()

    def renew(self, renewals: Iterable[Change], deadline_ms: float) -> None:
        """Extend locks to a later deadline."""
        for batch, first, last, *_ in renewals:
            batch.cut(first)
            batch.cut(last + 1)
            for run in batch.between(first, last):
                if run.state is RecordState.ACQUIRED:  # the same request may have given it back
                    run.deadline_ms = deadline_ms

    def _move_start(self) -> None:
        """Move the start offset to the first record that is not final."""
        gone = 0
        for batch in self._batches:
            open_run = next((run for run in batch.runs if run.state not in DONE), None)
            if open_run is not None:
                self.start_offset = max(self.start_offset, open_run.first)
                break
            gone += 1
        else:
            self.start_offset = self.end_offset
        del self._batches[:gone]
        if self._batches:
            batch = self._batches[0]
            batch.runs = [run for run in batch.runs if run.last >= self.start_offset]

    def begin_at(self, offset: int) -> None:
        """Drop the records before `offset`, where the log begins now."""
        if offset <= self.start_offset:
            return
        for batch in self._batches:
            batch.cut(offset)
            batch.runs = [run for run in batch.runs if run.first >= offset]
        self._batches = [batch for batch in self._batches if batch.runs]
        for batch in self._batches:
            batch.first = max(batch.first, offset)
        self.start_offset = offset
        self.end_offset = max(self.end_offset, offset)
        self._move_start()


def _is_among(change: Change, changes: Iterable[Change]) -> bool:
    """Return whether `changes` already cover some of its records."""
    return any(change.first <= known.last and known.first <= change.last for known in changes)
