"""Acquired records: expiring locks, leaving members, and their state after a restart."""

from broker.coordinators.share.acknowledgement import Acknowledged
from broker.coordinators.share.limits import Limits
from broker.coordinators.share.partition import InFlight
from broker.coordinators.share.runs import RecordState
from coordinator.share.state import ShareState, StateBatch
from protocol.error_codes import ErrorCode
from tests.support.in_flight import ACCEPT, RELEASE, RENEW, TENS, acknowledge, begun, refusal, wanted


def test_locks_expire_and_can_be_renewed():
    flight = begun()
    flight.acquire([(0, 9)], wanted(), Limits(lock_duration_ms=1_000), 0)
    assert flight.next_deadline_ms() == 1_000
    assert flight.given_back(Limits(), now_ms=999) == []
    acknowledge(flight, "m", (3, 4, [RENEW]))
    flight.apply(flight.given_back(Limits(), now_ms=1_000))
    assert flight.next_deadline_ms() == 99_000
    assert flight.acquire([(0, 9)], wanted("n"), Limits(), 2_000) == [(0, 2, 2), (5, 9, 2)]
    assert {run.member_id for _, run in flight.runs() if run.state is RecordState.ACQUIRED} == {"m", "n"}


def test_disabled_renewal_is_reported_after_ownership():
    """With share.renew.acknowledge.enable false, Kafka 4.3.1 checks first whether the member holds the record."""
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


def test_request_may_renew_then_release_a_record():
    """Not the other way round: a released record has no lock to renew. No lock outlives its expiry."""
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


def test_records_of_a_large_batch_have_their_own_states():
    flight = begun()
    flight.acquire([(0, 1999)], wanted(most=2000), Limits(), 0)
    done, acknowledged = acknowledge(flight, "m", (0, 1999, [ACCEPT, RELEASE] * 1000))
    assert (done, len(acknowledged), flight.start_offset) == (1000, 2000, 1)
    again = flight.acquire([(0, 1999)], wanted("n", 2000), Limits(), 0)
    assert again == [(offset, offset, 2) for offset in range(1, 2000, 2)]


def test_leaving_member_releases_its_records():
    flight = begun()
    flight.acquire(TENS[:1], wanted("m"), Limits(), 0)
    flight.acquire(TENS[1:2], wanted("n"), Limits(), 0)
    flight.apply(flight.given_back(Limits(), member_id="m"))
    assert flight.fetch_offset == 0
    assert flight.acquire(TENS, wanted("n", most=10), Limits(), 0) == [(0, 9, 2)]


def test_last_delivery_archives_the_record():
    """A lock that expires without an acknowledgement counts as a delivery."""
    limits = Limits(delivery_count=2)
    flight = begun()
    flight.acquire([(0, 0)], wanted(), limits, 0)
    flight.apply(flight.given_back(limits, now_ms=1e9))
    assert flight.acquire([(0, 0)], wanted(), limits, 0) == [(0, 0, 2)]
    changes = flight.given_back(limits, member_id="m")
    assert flight.stored(changes) == (1, (StateBatch(0, 0, 4, 2),))
    flight.apply(changes)
    assert (flight.start_offset, flight.fetch_offset, flight.in_flight_count) == (1, 1, 0)


def test_unwritten_deliveries_are_repeated():
    """An acquisition is not in the stored state, so a restart does not count it."""
    batches = (StateBatch(3, 4, 2, 1), StateBatch(6, 6, 0, 2), StateBatch(7, 7, 9, 1))
    flight = InFlight(ShareState(1, 2, batches=batches), 0)
    assert (flight.start_offset, flight.end_offset, flight.complete_count) == (2, 8, 2)
    assert flight.acquire([(0, 9)], wanted(), Limits(), 0) == [(2, 2, 1), (5, 5, 1), (6, 6, 3), (7, 7, 2), (8, 9, 1)]


def test_archiving_records_are_not_delivered_again():
    """KIP-1191: the leader stopped between a rejection and the record in its dead-letter queue. They are not final."""
    batches = (StateBatch(0, 1, 3, 1), StateBatch(2, 2, 0, 1), StateBatch(3, 3, 3, 1))
    flight = InFlight(ShareState(1, 0, delivery_complete_count=0, batches=batches), 0)
    assert (flight.start_offset, flight.complete_count) == (0, 0)
    assert flight.acquire([(0, 4)], wanted(), Limits(), 0) == [(2, 2, 2), (4, 4, 1)]
    changes = flight.archiving_between(0, 1)
    assert flight.stored(changes) == (2, (StateBatch(0, 1, 4, 1),))
    flight.apply(changes)
    assert (flight.start_offset, flight.complete_count) == (2, 0)
