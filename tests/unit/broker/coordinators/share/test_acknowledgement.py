"""Acknowledgements: their effect on records, and which are rejected."""

import pytest

from broker.coordinators.share.acknowledgement import Acknowledged, check_acknowledgements
from broker.coordinators.share.limits import Limits
from coordinator.share.state import StateBatch
from protocol.error_codes import ErrorCode
from tests.support.in_flight import ACCEPT, GAP, REJECT, RELEASE, TENS, acknowledge, begun, refusal, wanted


def test_acknowledgements_change_states():
    """The result has the old start offset; finished records from there on are counted."""
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
def test_foreign_acknowledgement_changes_nothing(member, batch, code, message):
    """Neither do the others of its request."""
    flight = begun()
    flight.acquire(TENS[:2], wanted(size=10), Limits(), 0)
    acknowledge(flight, "m", (5, 6, [ACCEPT]))
    before = [(run.first, run.last, run.state) for _, run in flight.runs()]
    assert refusal(flight.plan, member, [Acknowledged(0, 0, [1]), Acknowledged(*batch)], Limits())[0] is not None
    assert refusal(flight.plan, member, [Acknowledged(*batch)], Limits()) == (code, message)
    assert before == [(run.first, run.last, run.state) for _, run in flight.runs()]


def test_record_twice_in_a_request_is_rejected():
    flight = begun()
    flight.acquire(TENS, wanted(), Limits(), 0)
    batches = [Acknowledged(2, 3, [1]), Acknowledged(3, 4, [1])]
    assert refusal(flight.plan, "m", batches, Limits()) == (ErrorCode.INVALID_RECORD_STATE, NOT_ACQUIRED)


def test_acknowledgement_without_acquired_records():
    code, message = refusal(begun().plan, "m", [Acknowledged(0, 0, [1])], Limits())
    assert (code, "not found in the cache" in message) == (ErrorCode.INVALID_RECORD_STATE, True)


@pytest.mark.parametrize(
    "batches",
    [[(5, 4, [1])], [(4, 4, [1, 1])], [(4, 4, [7])], [(4, 4, [])], [(4, 4, [4])], [(3, 3, [1]), (2, 2, [1])],
     [(2, 4, [1]), (3, 3, [1])],     [(2, 3, [1, 0, 1])], [(2, 3, [-1])]],
)  # fmt: skip
def test_invalid_acknowledgements_are_rejected(batches):
    """Whatever the records' states. Renewals have to be announced in the request."""
    rows = [Acknowledged(*batch) for batch in batches]
    assert refusal(check_acknowledgements, rows, may_renew=False) == (ErrorCode.INVALID_REQUEST, None)


def test_valid_acknowledgements_pass():
    check_acknowledgements([Acknowledged(2, 3, [0, 3]), Acknowledged(4, 9, [4])], may_renew=True)


@pytest.mark.parametrize("member", ["m", "n"])
def test_batch_that_nobody_has_is_not_acquired(member):
    """By any member, and for any number of its records."""
    flight = begun()
    flight.acquire(TENS[:1], wanted(), Limits(), 0)
    acknowledge(flight, "m", (0, 9, [RELEASE]))
    message = "The batch cannot be acknowledged. The batch is not in the acquired state."
    for batch in ((0, 9, [ACCEPT]), (3, 4, [REJECT])):
        refused = refusal(flight.plan, member, [Acknowledged(*batch)], Limits())
        assert refused == (ErrorCode.INVALID_RECORD_STATE, message)
