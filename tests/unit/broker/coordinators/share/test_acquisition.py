"""Records that a member acquires: those of Apache Kafka 4.3.1 for the same requests."""

import pytest

from broker.coordinators.share.limits import Limits
from coordinator.share.state import StateBatch
from tests.support.in_flight import ACCEPT, REJECT, RELEASE, TENS, acknowledge, begun, wanted


def test_whole_batches_are_acquired_and_split_by_size():
    """Batches are taken until max.records is reached; batch.size splits them at batch ends of the log."""
    flight = begun()
    assert flight.acquire(TENS, wanted(most=1, size=3), Limits(), 0) == [(0, 9, 1)]
    assert flight.acquire(TENS, wanted(most=15, size=3), Limits(), 0) == [(10, 19, 1), (20, 29, 1)]
    assert flight.acquire(TENS, wanted(most=100, size=15), Limits(), 0) == [(30, 49, 1), (50, 59, 1)]
    assert flight.acquire(TENS, wanted(), Limits(), 0) == []
    assert flight.fetch_offset == 60


def test_record_limit_is_exact():
    """KIP-1206: mode 1. Returned records keep their batches."""
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
    """Kafka 4.3.1 ignores batch.size here, and returns the rest apart from new records."""
    flight = begun()
    assert flight.acquire(TENS, wanted(most=17, size=2, exact=True), Limits(), 0) == [(0, 16, 1)]
    assert flight.fetch_offset == 17
    assert flight.end_offset == 20
    assert flight.acquire(TENS[1:], wanted(most=9, size=2, exact=True), Limits(), 0) == [(17, 19, 1), (20, 25, 1)]
    assert flight.acquire(TENS[2:], wanted(size=500), Limits(), 0) == [(26, 29, 1), (30, 59, 1)]


def test_without_record_limit_a_batch_is_acquired_whole():
    """Kafka 4.3.1 returns all available records of a batch, however many the member requests."""
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


def test_failing_records_are_acquired_in_portions():
    """Half as many after half of the deliveries, and single records at the last delivery, each in its own response."""
    log = [(0, 63), (64, 73)]
    flight, given = begun(), []
    for _ in range(7):
        acquired = flight.acquire(log, wanted(), Limits(), 0)
        given.append(acquired)
        acknowledge(flight, "m", *[(first, last, [RELEASE]) for first, last, _ in acquired])
    assert given[:4] == [[(0, 73, 1)], [(0, 73, 2)], [(0, 73, 3)], [(0, 36, 4)]]
    assert given[4:] == [[(0, 0, 5)], [(1, 1, 5)], [(2, 2, 5)]]
    assert flight.start_offset == 3


def test_portions_are_those_of_the_original_batch():
    """Kafka 4.3.1 returns both of two records that are left of a larger batch, not one."""
    flight = begun()
    flight.acquire([(0, 9)], wanted(), Limits(), 0)
    acknowledge(flight, "m", (0, 1, [RELEASE]), (2, 9, [ACCEPT]))
    for _ in range(2):
        flight.acquire([(0, 9)], wanted(), Limits(), 0)
        acknowledge(flight, "m", (0, 1, [RELEASE]))
    assert flight.acquire([(0, 9)], wanted(), Limits(), 0) == [(0, 1, 4)]


def failing(first_ones):
    """A batch of ten: the first records are acquired, the others were delivered three times."""
    flight = begun()
    flight.acquire([(0, 9)], wanted(most=first_ones, exact=True), Limits(), 0)
    for _ in range(3):
        flight.acquire([(0, 9)], wanted(most=10 - first_ones, exact=True), Limits(), 0)
        acknowledge(flight, "m", (first_ones, 9, [RELEASE]))
    acknowledge(flight, "m", (0, first_ones - 1, [RELEASE]))
    return flight


@pytest.mark.parametrize(("first_ones", "last"), [(2, 4), (4, 4), (5, 9), (7, 9)])
def test_portions_count_earlier_records_of_the_batch(first_ones, last):
    """Kafka 4.3.1 returns five of ten including earlier ones; if those are five or more, it returns all."""
    flight = failing(first_ones)
    held = (0, first_ones - 1, 2)
    assert flight.acquire([(0, 9)], wanted(), Limits(), 0) == [held, (first_ones, last, 4)]


def test_batch_of_failing_records_begins_a_response():
    """Kafka 4.3.1 returns none of its records together with another batch, before or after it."""
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


def test_lock_limit_is_rounded_up_to_a_batch():
    limits = Limits(record_locks=100)
    flight = begun(20)
    assert flight.acquire([(20, 20)], wanted(), limits, 0) == [(20, 20, 1)]
    sixties = [(21, 80), (81, 140), (141, 200)]
    assert flight.acquire(sixties, wanted(), limits, 0) == [(21, 140, 1)]
    assert flight.acquire(sixties[2:], wanted(), limits, 0) == []
    acknowledge(flight, "m", (20, 20, [ACCEPT]), (21, 60, [ACCEPT]))
    assert flight.acquire(sixties[2:], wanted(), limits, 0) == [(141, 200, 1)]


def test_gap_of_the_log_is_not_acquired():
    """Compaction removed its records; the start offset skips it."""
    flight = begun()
    assert flight.acquire([(0, 4)], wanted(), Limits(), 0) == [(0, 4, 1)]
    assert flight.acquire([(10, 14)], wanted(), Limits(), 0) == [(10, 14, 1)]
    acknowledge(flight, "m", (0, 4, [ACCEPT]))
    assert flight.start_offset == 10


def test_raised_log_start_drops_records():
    """After DeleteRecords, acknowledgements of deleted records are ignored."""
    flight = begun()
    flight.acquire(TENS, wanted(), Limits(), 0)
    flight.begin_at(55)
    flight.begin_at(55)
    assert acknowledge(flight, "m", (0, 9, [ACCEPT]), (50, 56, [ACCEPT])) == (2, (StateBatch(55, 56, 2, 1),))
    assert (flight.start_offset, flight.end_offset) == (57, 60)
    flight.begin_at(1_000)
    assert (flight.start_offset, flight.end_offset, flight.fetch_offset) == (1_000, 1_000, 1_000)
