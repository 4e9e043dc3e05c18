"""Acquired records, compared with a model: a list of records."""

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from broker.coordinators.share.acknowledgement import Acknowledged
from broker.coordinators.share.acquisition import Acquired, AcquireRequest
from broker.coordinators.share.limits import Limits
from broker.coordinators.share.partition import InFlight
from broker.coordinators.share.runs import RecordState, buried
from coordinator.group.refused import Refused
from coordinator.share.state import ShareState, merge_batches
from tests.support.in_flight import ACCEPT, GAP, REJECT, RELEASE, begun
from tests.support.scale import scaled


class Model(RuleBasedStateMachine):
    """The model has [state, deliveries, member] of each record, and the share coordinator's state. Records that the
    log has lost are done for it.
    """

    def __init__(self):
        super().__init__()
        self.limits = Limits(lock_duration_ms=1_000, delivery_count=4, record_locks=30)
        self.log: list[tuple[int, int]] = []
        self.flight = begun()
        self.records: list[list] = []
        self.stored = ShareState(1, -1)
        self.now_ms = 0
        self.log_start = 0

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
        states = {RELEASE: "available", REJECT: self.exhausted}
        for each in range(max(first, start), last + 1):
            self.become(each, states.get(kind, "done"))
        letters = {offset for each in buried(changes) for offset in range(each.first, each.last + 1)}
        assert letters == {each for each in range(max(first, start), last + 1) if self.records[each][0] == "archiving"}

    @property
    def exhausted(self):
        return "archiving" if self.limits.has_dead_letters else "done"

    def become(self, offset, state):
        is_last = self.records[offset][1] >= self.limits.delivery_count
        state = self.exhausted if is_last and state == "available" else state
        self.records[offset] = [state, self.records[offset][1], ""]

    @rule(has_queue=st.booleans())
    def configure(self, has_queue):
        self.limits = msgspec.structs.replace(self.limits, has_dead_letters=has_queue)

    @precondition(lambda self: any(state == "archiving" for state, *_ in self.records))
    @rule(data=st.data())
    def finish_a_letter(self, data):
        """The dead letters of a run are written, or given up: the records are final."""
        runs = [run for _, run in self.flight.runs() if run.state is RecordState.ARCHIVING]
        run = data.draw(st.sampled_from(runs))
        first, last = run.first, run.last
        self.store(self.flight.archiving_between(first, last))
        for offset in range(first, last + 1):
            self.become(offset, "done")

    @precondition(lambda self: self.log)
    @rule(data=st.data())
    def remove_records(self, data):
        """The log loses its first records, whatever their states are; the next fetch finds out."""
        self.log_start = data.draw(st.integers(self.log_start, self.log[-1][1] + 1))
        self.find_log_start()

    def find_log_start(self):
        self.flight.begin_at(self.log_start)
        self.records += [["available", 0, ""] for _ in range(len(self.records), self.log_start)]
        for record in self.records[: self.log_start]:
            record[0] = "done"

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
        self.find_log_start()
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
        names = {0: "available", 1: "acquired", 2: "done", 3: "archiving", 4: "done"}
        for batch, run in self.flight.runs():
            assert batch.first <= run.first <= run.last <= batch.last
            for offset in range(run.first, run.last + 1):
                state, count, member = self.records[offset]
                assert (names[run.state], run.member_id) == (state, member)
                assert state == "done" or run.count == count

    @invariant()
    def final_records_are_counted(self):
        """Those that are archiving are not among them."""
        states = [state for state, *_ in self.records[self.flight.start_offset : self.flight.end_offset]]
        assert self.flight.complete_count == states.count("done")


Model.TestCase.settings = settings(max_examples=scaled(40), stateful_step_count=30)
TestModel = Model.TestCase
