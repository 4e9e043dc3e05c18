"""Acquired records, compared with a model: a list of records."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from broker.coordinators.share.acknowledgement import Acknowledged
from broker.coordinators.share.acquisition import Acquired, AcquireRequest
from broker.coordinators.share.limits import Limits
from broker.coordinators.share.partition import InFlight
from coordinator.group.refused import Refused
from coordinator.share.state import ShareState, merge_batches
from tests.support.in_flight import ACCEPT, GAP, REJECT, RELEASE, begun
from tests.support.scale import scaled


class Model(RuleBasedStateMachine):
    """The model has [state, deliveries, member] of each record, and the share coordinator's state."""

    def __init__(self):
        super().__init__()
        self.limits = Limits(lock_duration_ms=1_000, delivery_count=4, record_locks=30)
        self.log: list[tuple[int, int]] = []
        self.flight = begun()
        self.records: list[list] = []
        self.stored = ShareState(1, -1)
        self.now_ms = 0

    def store(self, changes):
        done, batches = self.flight.stored(changes)
        start = self.flight.start_offset
        self.stored = ShareState(
            1, start, delivery_complete_count=done, batches=merge_batches(self.stored.batches, batches, start)
        )
        self.flight.apply(changes)

    @rule(size=st.integers(1, 6))
    def append(self, size):
        first = self.log[-1][1] + 1 if self.log else 0
        self.log.append((first, first + size - 1))

    @precondition(lambda self: self.log)
    @rule(member=st.sampled_from("mn"), most=st.integers(1, 12), size=st.integers(1, 8), exact=st.booleans())
    def acquire(self, member, most, size, exact):
        offset = self.flight.fetch_offset
        log = [batch for batch in self.log if batch[1] >= offset]
        acquired = self.flight.acquire(log, AcquireRequest(member, most, size, exact), self.limits, self.now_ms)
        total = 0
        for first, last, count in acquired:
            assert isinstance(Acquired(first, last, count), tuple)
            for each in range(first, last + 1):
                while len(self.records) <= each:
                    self.records.append(["available", 0, ""])
                state, deliveries, _ = self.records[each]
                assert (state, deliveries + 1) == ("available", count)
                assert count <= self.limits.delivery_count
                self.records[each] = ["acquired", count, member]
                total += 1
        assert not exact or total <= most
        while len(self.records) < self.flight.end_offset:  # the rest of a batch that was acquired only in part
            self.records.append(["available", 0, ""])

    @precondition(lambda self: self.records)
    @rule(data=st.data(), member=st.sampled_from("mn"), kind=st.sampled_from([ACCEPT, RELEASE, REJECT, GAP]))
    def acknowledge(self, data, member, kind):
        first = data.draw(st.integers(0, len(self.records) - 1))
        last = data.draw(st.integers(first, min(first + 5, len(self.records) - 1)))
        start = self.flight.start_offset
        mine = all(
            self.records[each][0] == "acquired" and self.records[each][2] == member
            for each in range(max(first, start), last + 1)
        )
        try:
            changes, _ = self.flight.plan(member, [Acknowledged(first, last, [kind])], self.limits)
        except Refused:
            assert not mine or last < start
            return
        assert mine or last < start
        self.store(changes)
        for each in range(max(first, start), last + 1):
            self.become(each, "available" if kind is RELEASE else "done")

    def become(self, offset, state):
        is_last = self.records[offset][1] >= self.limits.delivery_count
        self.records[offset] = ["done" if is_last and state == "available" else state, self.records[offset][1], ""]

    @rule(member=st.sampled_from("mn"))
    def leave(self, member):
        self.store(self.flight.given_back(self.limits, member_id=member))
        for offset, (state, _, owner) in enumerate(self.records):
            if (state, owner) == ("acquired", member):
                self.become(offset, "available")

    @rule()
    def let_locks_end(self):
        self.now_ms += 1_000
        self.store(self.flight.given_back(self.limits, now_ms=self.now_ms))
        for offset, (state, *_) in enumerate(self.records):
            if state == "acquired":
                self.become(offset, "available")

    @rule()
    def restart(self):
        """Restart: acquired records return to their stored state, and acknowledged ones are not delivered."""
        start = self.flight.start_offset
        self.flight = InFlight(self.stored, 0)
        assert self.flight.start_offset == start
        known = {o: b.delivery_count for b in self.stored.batches for o in range(b.first_offset, b.last_offset + 1)}
        for offset, (state, *_) in enumerate(self.records):
            if state == "acquired":
                self.records[offset] = ["available", known.get(offset, 0), ""]

    @invariant()
    def start_offset_is_the_first_that_is_open(self):
        first = next((offset for offset, record in enumerate(self.records) if record[0] != "done"), len(self.records))
        assert self.flight.start_offset == first

    @invariant()
    def runs_are_the_records(self):
        names = {0: "available", 1: "acquired", 2: "done", 4: "done"}
        for batch, run in self.flight.runs():
            assert batch.first <= run.first <= run.last <= batch.last
            for offset in range(run.first, run.last + 1):
                state, count, member = self.records[offset]
                assert (names[run.state], run.member_id) == (state, member)
                assert state == "done" or run.count == count


Model.TestCase.settings = settings(max_examples=scaled(40), stateful_step_count=30)
TestModel = Model.TestCase
