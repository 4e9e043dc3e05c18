"""Records in flight: what a member is given, what becomes of it, and what is left of it after a restart."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from broker.shares.acknowledgement import Acknowledge, Acknowledged, check_acknowledgements
from broker.shares.acquisition import Acquired, Wanted
from broker.shares.limits import Limits
from broker.shares.partition import InFlight
from broker.shares.runs import RecordState
from coordinator.group.refused import Refused
from coordinator.share.state import ShareState, StateBatch, combined
from protocol.errors import ErrorCode
from tests.support.scale import scaled

NEW = ShareState(1, -1)
TENS = [(first, first + 9) for first in range(0, 60, 10)]
ACCEPT, RELEASE, REJECT, RENEW, GAP = (Acknowledge[name] for name in ("ACCEPT", "RELEASE", "REJECT", "RENEW", "GAP"))


def wanted(member="m", most=500, size=500, *, exact=False):
    return Wanted(member, most, size, exact)


def begun(start=0):
    return InFlight(NEW, start)


def acknowledge(flight, member, *batches, limits=Limits()):  # noqa: B008 - frozen
    """Plan and apply; what the share coordinator would be told."""
    changes, renewals = flight.plan(member, [Acknowledged(*batch) for batch in batches], limits)
    told = flight.stored(changes)
    flight.apply(changes)
    flight.renew(renewals, 99_000)
    return told


def refusal(act, *args, **fields):
    with pytest.raises(Refused) as caught:
        act(*args, **fields)
    return caught.value.code, caught.value.message


# -- acquiring: what Apache Kafka 4.3.1 gave for the same requests ---------------------------------------------------


def test_whole_batches_of_the_log_are_given_and_split_by_size():
    """As many as it takes for max.records; batch.size ends a batch where one of the log ends."""
    flight = begun()
    assert flight.acquire(TENS, wanted(most=1, size=3), Limits(), 0) == [(0, 9, 1)]
    assert flight.acquire(TENS, wanted(most=15, size=3), Limits(), 0) == [(10, 19, 1), (20, 29, 1)]
    assert flight.acquire(TENS, wanted(most=100, size=15), Limits(), 0) == [(30, 49, 1), (50, 59, 1)]
    assert flight.acquire(TENS, wanted(), Limits(), 0) == []
    assert flight.fetch_offset == 60


def test_record_limit_is_exact():
    """KIP-1206: mode 1. What comes back keeps the batches that it had."""
    flight = begun()
    for most, size in ((1, 3), (15, 3), (100, 15)):
        flight.acquire(TENS, wanted(most=most, size=size), Limits(), 0)
    acknowledge(flight, "m", (0, 2, [RELEASE]), (12, 12, [REJECT]), (35, 35, [ACCEPT]))
    flight.apply(flight.given_back(Limits(), now_ms=30_000))
    assert flight.acquire(TENS, wanted(most=7), Limits(), 0) == [(0, 9, 2)]
    assert flight.acquire(TENS[1:], wanted(most=7, exact=True), Limits(), 0) == [(10, 11, 2), (13, 17, 2)]
    rest = flight.acquire(TENS[1:], wanted(most=100, size=4, exact=True), Limits(), 0)
    assert rest == [(18, 19, 2), (20, 29, 2), (30, 34, 2), (36, 49, 2), (50, 59, 2)]


def test_record_limit_leaves_the_rest_of_a_batch_in_flight():
    """Seen on Kafka 4.3.1: batch.size counts for nothing there, and the rest comes apart from what is new."""
    flight = begun()
    assert flight.acquire(TENS, wanted(most=17, size=2, exact=True), Limits(), 0) == [(0, 16, 1)]
    assert flight.fetch_offset == 17
    assert flight.end_offset == 20
    assert flight.acquire(TENS[1:], wanted(most=9, size=2, exact=True), Limits(), 0) == [(17, 19, 1), (20, 25, 1)]
    assert flight.acquire(TENS[2:], wanted(size=500), Limits(), 0) == [(26, 29, 1), (30, 59, 1)]


def test_without_a_record_limit_a_batch_is_given_whole():
    """Seen on Kafka 4.3.1: all that is available of it, however many records the member asks for."""
    flight = begun()
    flight.acquire([(0, 19)], wanted(), Limits(), 0)
    acknowledge(
        flight, "m", (0, 0, [RELEASE]), (1, 1, [ACCEPT]), (2, 5, [RELEASE]), (6, 9, [REJECT]), (10, 19, [RELEASE])
    )
    assert flight.acquire([(0, 19), (20, 29)], wanted(most=2), Limits(), 0) == [(0, 0, 2), (2, 5, 2), (10, 19, 2)]
    flight = begun()
    flight.acquire([(0, 19)], wanted(), Limits(), 0)
    acknowledge(flight, "m", (0, 0, [RELEASE]), (1, 1, [ACCEPT]), (2, 5, [RELEASE]), (6, 19, [REJECT]))
    assert flight.acquire([(0, 19), (20, 29)], wanted(most=2, exact=True), Limits(), 0) == [(0, 0, 2), (2, 2, 2)]


def test_records_that_keep_failing_come_in_portions():
    """Half as many after half of the deliveries, and one by one at the last, each alone in its answer."""
    log = [(0, 63), (64, 73)]
    flight, given = begun(), []
    for _ in range(7):
        acquired = flight.acquire(log, wanted(), Limits(), 0)
        given.append(acquired)
        acknowledge(flight, "m", *[(first, last, [RELEASE]) for first, last, _ in acquired])
    assert given[:4] == [[(0, 73, 1)], [(0, 73, 2)], [(0, 73, 3)], [(0, 36, 4)]]
    assert given[4:] == [[(0, 0, 5)], [(1, 1, 5)], [(2, 2, 5)]]
    assert flight.start_offset == 3


def test_portions_are_those_of_the_whole_batch():
    """Seen on Kafka 4.3.1: of two records left of a larger batch both are given, not half of them."""
    flight = begun()
    flight.acquire([(0, 9)], wanted(), Limits(), 0)
    acknowledge(flight, "m", (0, 1, [RELEASE]), (2, 9, [ACCEPT]))
    for _ in range(2):
        flight.acquire([(0, 9)], wanted(), Limits(), 0)
        acknowledge(flight, "m", (0, 1, [RELEASE]))
    assert flight.acquire([(0, 9)], wanted(), Limits(), 0) == [(0, 1, 4)]


def failing(first_ones):
    """A batch of ten: the first of them are held, the others have come back three times."""
    flight = begun()
    flight.acquire([(0, 9)], wanted(most=first_ones, exact=True), Limits(), 0)
    for _ in range(3):
        flight.acquire([(0, 9)], wanted(most=10 - first_ones, exact=True), Limits(), 0)
        acknowledge(flight, "m", (first_ones, 9, [RELEASE]))
    acknowledge(flight, "m", (0, first_ones - 1, [RELEASE]))
    return flight


@pytest.mark.parametrize(("first_ones", "last"), [(2, 4), (4, 4), (5, 9), (7, 9)])
def test_portions_count_what_comes_before_in_the_batch(first_ones, last):
    """Seen on Kafka 4.3.1: five of ten with what is given before; where that is five or more, all the rest comes."""
    flight = failing(first_ones)
    held = (0, first_ones - 1, 2)
    assert flight.acquire([(0, 9)], wanted(), Limits(), 0) == [held, (first_ones, last, 4)]


def test_batch_with_records_that_keep_failing_begins_an_answer():
    """Seen on Kafka 4.3.1: nothing of it comes with another batch, be it before or behind, be it failing or not."""
    log = [(0, 9), (10, 19), (20, 24)]
    flight = begun()
    flight.acquire(log, wanted(most=1, size=1), Limits(), 0)
    flight.acquire(log, wanted(most=4, exact=True), Limits(), 0)
    for _ in range(3):
        flight.acquire(log, wanted(most=6, exact=True), Limits(), 0)
        acknowledge(flight, "m", (14, 19, [RELEASE]))
    acknowledge(flight, "m", (0, 13, [RELEASE]))
    given = [flight.acquire(log, wanted(), Limits(), 0) for _ in range(4)]
    assert given == [[(0, 9, 2)], [(10, 13, 2), (14, 14, 4)], [(15, 19, 4)], [(20, 24, 1)]]


def test_as_many_as_may_be_locked_rounded_up_to_a_batch():
    limits = Limits(record_locks=100)
    flight = begun(20)
    assert flight.acquire([(20, 20)], wanted(), limits, 0) == [(20, 20, 1)]
    sixties = [(21, 80), (81, 140), (141, 200)]
    assert flight.acquire(sixties, wanted(), limits, 0) == [(21, 140, 1)]
    assert flight.acquire(sixties[2:], wanted(), limits, 0) == []
    acknowledge(flight, "m", (20, 20, [ACCEPT]), (21, 60, [ACCEPT]))
    assert flight.acquire(sixties[2:], wanted(), limits, 0) == [(141, 200, 1)]


def test_gap_of_the_log_is_given_to_nobody():
    """Compaction has left nothing there: the start offset goes over it."""
    flight = begun()
    assert flight.acquire([(0, 4)], wanted(), Limits(), 0) == [(0, 4, 1)]
    assert flight.acquire([(10, 14)], wanted(), Limits(), 0) == [(10, 14, 1)]
    acknowledge(flight, "m", (0, 4, [ACCEPT]))
    assert flight.start_offset == 10


def test_log_that_begins_later_takes_records_with_it():
    """DeleteRecords: what is acknowledged of them afterwards is of no interest."""
    flight = begun()
    flight.acquire(TENS, wanted(), Limits(), 0)
    flight.begin_at(55)
    flight.begin_at(55)
    assert acknowledge(flight, "m", (0, 9, [ACCEPT]), (50, 56, [ACCEPT])) == (2, (StateBatch(55, 56, 2, 1),))
    assert (flight.start_offset, flight.end_offset) == (57, 60)
    flight.begin_at(1_000)
    assert (flight.start_offset, flight.end_offset, flight.fetch_offset) == (1_000, 1_000, 1_000)


# -- acknowledging ----------------------------------------------------------------------------------------------------


def test_acknowledgements_become_states():
    """Told: the start offset is where it was; what is done with from there on is counted."""
    flight = begun()
    flight.acquire([(0, 14)], wanted(), Limits(), 0)
    assert acknowledge(flight, "m", (0, 1, [ACCEPT]), (2, 2, [RELEASE]), (3, 3, [REJECT])) == (
        3,
        (StateBatch(0, 1, 2, 1), StateBatch(2, 2, 0, 1), StateBatch(3, 3, 4, 1)),
    )
    assert flight.start_offset == 2
    types = [ACCEPT, ACCEPT, GAP, ACCEPT, ACCEPT, ACCEPT, ACCEPT, RELEASE, RELEASE, REJECT]
    assert acknowledge(flight, "m", (5, 14, types)) == (
        9,
        tuple(
            StateBatch(*each) for each in [(5, 6, 2, 1), (7, 7, 4, 1), (8, 11, 2, 1), (12, 13, 0, 1), (14, 14, 4, 1)]
        ),
    )


PAST = "Batch record not found. The {} offset in request is past acquired records."
NOT_ACQUIRED = "The offset cannot be acknowledged. The offset is not acquired."


@pytest.mark.parametrize(
    ("member", "batch", "code", "message"),
    [
        ("m", (100, 101, [1]), ErrorCode.INVALID_REQUEST, PAST.format("first")),
        ("m", (13, 20, [1]), ErrorCode.INVALID_REQUEST, PAST.format("last")),
        ("n", (10, 10, [1]), ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of batch record"),
        ("n", (0, 0, [1]), ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of offset"),
        ("n", (10, 19, [1]), ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of batch record"),
        ("m", (5, 5, [1]), ErrorCode.INVALID_RECORD_STATE, NOT_ACQUIRED),
        ("m", (4, 7, [1]), ErrorCode.INVALID_RECORD_STATE, NOT_ACQUIRED),
        ("m", (5, 5, [4]), ErrorCode.INVALID_RECORD_STATE, NOT_ACQUIRED),
    ],
)
def test_what_is_not_the_members_to_acknowledge_changes_nothing(member, batch, code, message):
    """Nor does what stands beside it in the same request."""
    flight = begun()
    flight.acquire(TENS[:2], wanted(size=10), Limits(), 0)
    acknowledge(flight, "m", (5, 6, [ACCEPT]))
    before = [(run.first, run.last, run.state) for _, run in flight.runs()]
    assert refusal(flight.plan, member, [Acknowledged(0, 0, [1]), Acknowledged(*batch)], Limits())[0] is not None
    assert refusal(flight.plan, member, [Acknowledged(*batch)], Limits()) == (code, message)
    assert before == [(run.first, run.last, run.state) for _, run in flight.runs()]


def test_same_record_twice_in_a_request():
    flight = begun()
    flight.acquire(TENS, wanted(), Limits(), 0)
    batches = [Acknowledged(2, 3, [1]), Acknowledged(3, 4, [1])]
    assert refusal(flight.plan, "m", batches, Limits()) == (ErrorCode.INVALID_RECORD_STATE, NOT_ACQUIRED)


def test_nothing_is_in_flight():
    code, message = refusal(begun().plan, "m", [Acknowledged(0, 0, [1])], Limits())
    assert (code, "not found in the cache" in message) == (ErrorCode.INVALID_RECORD_STATE, True)


@pytest.mark.parametrize(
    "batches",
    [[(5, 4, [1])], [(4, 4, [1, 1])], [(4, 4, [7])], [(4, 4, [])], [(4, 4, [4])], [(3, 3, [1]), (2, 2, [1])],
     [(2, 4, [1]), (3, 3, [1])],     [(2, 3, [1, 0, 1])], [(2, 3, [-1])]],
)  # fmt: skip
def test_acknowledgements_that_make_no_sense(batches):
    """Whatever the records' states are; renewals have to be announced."""
    rows = [Acknowledged(*batch) for batch in batches]
    assert refusal(check_acknowledgements, rows, may_renew=False) == (ErrorCode.INVALID_REQUEST, None)


def test_sensible_acknowledgements_pass():
    check_acknowledgements([Acknowledged(2, 3, [0, 3]), Acknowledged(4, 9, [4])], may_renew=True)


# -- locks ------------------------------------------------------------------------------------------------------------


def test_locks_end_and_can_be_renewed():
    flight = begun()
    flight.acquire([(0, 9)], wanted(), Limits(lock_duration_ms=1_000), 0)
    assert flight.next_deadline_ms() == 1_000
    assert flight.given_back(Limits(), now_ms=999) == []
    acknowledge(flight, "m", (3, 4, [RENEW]))
    flight.apply(flight.given_back(Limits(), now_ms=1_000))
    assert flight.next_deadline_ms() == 99_000
    assert flight.acquire([(0, 9)], wanted("n"), Limits(), 2_000) == [(0, 2, 2), (5, 9, 2)]
    assert {run.member_id for _, run in flight.runs() if run.state is RecordState.ACQUIRED} == {"m", "n"}


def test_groups_that_do_not_renew_say_so_of_records_that_could_be():
    """share.renew.acknowledge.enable, seen on Kafka 4.3.1: whose record it is, and whether, is looked at first."""
    flight = begun()
    flight.acquire([(0, 9)], wanted(), Limits(), 0)
    acknowledge(flight, "m", (0, 0, [ACCEPT]))

    def refused(member, first):
        return refusal(flight.plan, member, [Acknowledged(first, first, [RENEW])], Limits(), may_renew=False)

    off = "Renewing acquisition locks is not enabled for the group."
    assert refused("m", 1) == (ErrorCode.INVALID_RECORD_STATE, off)
    assert refused("other", 1) == (ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of offset")
    assert refused("m", 10)[0] is ErrorCode.INVALID_REQUEST
    assert flight.plan("m", [Acknowledged(0, 0, [RENEW])], Limits(), may_renew=False) == ([], [])


def test_one_request_may_renew_and_release_but_not_release_and_renew():
    """A lock that was renewed may end; of one that has ended nothing is left to be renewed. No lock outlives that."""
    flight = begun()
    flight.acquire([(0, 9)], wanted(), Limits(), 0)
    acknowledge(flight, "m", (0, 9, [RENEW]), (0, 4, [RELEASE]), (7, 7, [ACCEPT]))
    assert [(run.first, run.last, run.deadline_ms) for _, run in flight.runs()] == [
        (0, 4, 0),
        (5, 6, 99_000),
        (7, 7, 0),
        (8, 9, 99_000),
    ]
    code, _ = refusal(acknowledge, flight, "m", (5, 6, [RELEASE]), (6, 6, [RENEW]))
    assert code is ErrorCode.INVALID_RECORD_STATE


def test_each_record_of_a_large_batch_may_go_its_own_way():
    flight = begun()
    flight.acquire([(0, 1999)], wanted(most=2000), Limits(), 0)
    done, told = acknowledge(flight, "m", (0, 1999, [ACCEPT, RELEASE] * 1000))
    assert (done, len(told), flight.start_offset) == (1000, 2000, 1)
    again = flight.acquire([(0, 1999)], wanted("n", 2000), Limits(), 0)
    assert again == [(offset, offset, 2) for offset in range(1, 2000, 2)]


def test_member_that_goes_gives_back_what_it_has():
    flight = begun()
    flight.acquire(TENS[:1], wanted("m"), Limits(), 0)
    flight.acquire(TENS[1:2], wanted("n"), Limits(), 0)
    flight.apply(flight.given_back(Limits(), member_id="m"))
    assert flight.fetch_offset == 0
    assert flight.acquire(TENS, wanted("n", most=10), Limits(), 0) == [(0, 9, 2)]


def test_last_delivery_ends_in_the_archive():
    """Also when nobody says so."""
    limits = Limits(delivery_count=2)
    flight = begun()
    flight.acquire([(0, 0)], wanted(), limits, 0)
    flight.apply(flight.given_back(limits, now_ms=1e9))
    assert flight.acquire([(0, 0)], wanted(), limits, 0) == [(0, 0, 2)]
    changes = flight.given_back(limits, member_id="m")
    assert flight.stored(changes) == (1, (StateBatch(0, 0, 4, 2),))
    flight.apply(changes)
    assert (flight.start_offset, flight.fetch_offset, flight.in_flight_count) == (1, 1, 0)


# -- restart ----------------------------------------------------------------------------------------------------------


def test_what_was_not_written_is_given_again():
    """Acquired, and nothing said of it: from the state alone it was never given."""
    batches = (StateBatch(3, 4, 2, 1), StateBatch(6, 6, 0, 2), StateBatch(7, 7, 9, 1))
    flight = InFlight(ShareState(1, 2, batches=batches), 0)
    assert (flight.start_offset, flight.end_offset, flight.complete_count) == (2, 8, 2)
    assert flight.acquire([(0, 9)], wanted(), Limits(), 0) == [(2, 2, 1), (5, 5, 1), (6, 6, 3), (7, 7, 2), (8, 9, 1)]


class Model(RuleBasedStateMachine):
    """Against a list of records: [state, deliveries, member]; the share coordinator's state is kept beside."""

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
            1, start, delivery_complete_count=done, batches=combined(self.stored.batches, batches, start)
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
        acquired = self.flight.acquire(log, Wanted(member, most, size, exact), self.limits, self.now_ms)
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
        while len(self.records) < self.flight.end_offset:  # the rest of a batch of which only a part was wanted
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
        """What is acquired is as it was before; nothing that was acknowledged comes back."""
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
