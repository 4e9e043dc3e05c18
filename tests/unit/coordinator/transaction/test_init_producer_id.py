"""InitProducerId with a transactional id: epochs, fencing, and recovery after errors (KIP-98, KIP-360, KIP-588)."""

import pytest

from coordinator.transaction.init_producer_id import InitProducerIdResult, check_init
from coordinator.transaction.state import TransactionState
from coordinator.transaction.transaction import NEWER, OLDER
from protocol.error_codes import ErrorCode
from tests.support.transactions import ID, TransactionHarness, places

PID = 1_000
LAST = 32_766


@pytest.fixture
def h() -> TransactionHarness:
    return TransactionHarness()


def at_epoch(h: TransactionHarness, epoch: int) -> None:
    """Let producers take the id over until it has this epoch."""
    while h.init().producer_epoch < epoch:
        pass


def test_new_id_is_written_before_the_response(h):
    """S20.7: the producer id is in the log before the response."""
    assert h.init(timeout_ms=5_000) == InitProducerIdResult(ErrorCode.NONE, PID, 0)
    assert len(h.log) == 1
    found = h[ID]
    assert (found.state, found.timeout_ms, found.start_ms) == (TransactionState.EMPTY, 5_000, -1)
    assert found.previous_producer_id == PID


def test_failed_write_changes_nothing(h):
    h.failure = ErrorCode.NOT_COORDINATOR
    assert h.init() == InitProducerIdResult(ErrorCode.NOT_COORDINATOR)
    assert ID not in h.shard.transactions


def test_each_producer_gets_the_next_epoch(h):
    """S20.17: the producer before is fenced."""
    h.init()
    assert h.init(timeout_ms=7) == InitProducerIdResult(ErrorCode.NONE, PID, 1)
    assert h[ID].timeout_ms == 7
    assert h.add((PID, 0), "t-0") is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize(
    ("timeout_ms", "code"),
    [
        (-(2**31), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (0, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (1, ErrorCode.NONE),
        (900_000, ErrorCode.NONE),
        (900_001, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (2**31 - 1, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    ],
)
def test_timeouts_are_within_bounds(h, timeout_ms, code):
    """transaction.max.timeout.ms."""
    assert check_init(h.shard, timeout_ms) is code


def test_open_transaction_is_aborted_first(h):
    """S20.6: the next producer ends it. The abort bumps the epoch, and so does the new producer."""
    h.init()
    h.add((PID, 0), "t-0", "t-1")
    assert h.init().code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert (h[ID].state, h[ID].producer_epoch) == (TransactionState.PREPARE_ABORT, 1)
    assert h[ID].partitions == places("t-0", "t-1")
    assert h.init().code is ErrorCode.CONCURRENT_TRANSACTIONS
    h.write_markers()
    assert h.init() == InitProducerIdResult(ErrorCode.NONE, PID, 2)


def test_older_protocol_fences_before_it_aborts():
    h = TransactionHarness(level=1)
    h.init()
    h.add((PID, 0), "t-0", client_version=OLDER)
    assert h.init().code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert (h[ID].state, h[ID].producer_epoch, h[ID].client_version) == (TransactionState.PREPARE_ABORT, 1, 0)
    h.write_markers()
    assert h.init() == InitProducerIdResult(ErrorCode.NONE, PID, 2)


def test_failed_abort_uses_no_epoch(h):
    h.init()
    h.add((PID, 0), "t-0")
    h.failure = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert [h.init().code for _ in range(3)] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 3
    h.failure = ErrorCode.NONE
    h.init()
    assert h[ID].producer_epoch == 1


# -- KIP-360 ----------------------------------------------------------------------------------------------------------


def test_producer_continues_from_its_epoch(h):
    h.init()
    assert h.init(expected=(PID, 0)) == InitProducerIdResult(ErrorCode.NONE, PID, 1)


def test_producer_that_missed_the_response_gets_it_again(h):
    """Until another producer takes the id over."""
    h.init()
    h.init(expected=(PID, 0))
    assert [h.init(expected=(PID, 0)) for _ in range(2)] == [InitProducerIdResult(ErrorCode.NONE, PID, 1)] * 2
    h.init()
    assert h.init(expected=(PID, 0)).code is ErrorCode.PRODUCER_FENCED
    assert h.init(expected=(PID, 1)).code is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("expected", [(PID + 1, 0), (PID, 3), (PID, 32_767), (-2, 0), (PID, -5)])
def test_unknown_producers_are_fenced(h, expected):
    h.init()
    before = h[ID]
    assert h.init(expected=expected) == InitProducerIdResult(ErrorCode.PRODUCER_FENCED)
    assert h[ID] == before


def test_unknown_producers_wait_for_markers(h):
    """As in Kafka, no producer is judged while a transaction ends."""
    h.init()
    h.add((PID, 0), "t-0")
    h.end((PID, 0), True)
    assert h.init(expected=(PID + 1, 0)).code is ErrorCode.CONCURRENT_TRANSACTIONS
    h.write_markers()
    assert h.init(expected=(PID + 1, 0)).code is ErrorCode.PRODUCER_FENCED


def test_producer_of_an_expired_id_gets_a_new_one(h):
    """It may have expired: whatever the producer's id and epoch are, it gets a new id."""
    assert h.init(expected=(77, 5)) == InitProducerIdResult(ErrorCode.NONE, PID, 0)


def test_its_own_open_transaction_is_aborted_too(h):
    """It gets the epoch of the abort, because no other producer took over in between."""
    h.init()
    h.add((PID, 0), "t-0")
    assert h.init(expected=(PID, 0)).code is ErrorCode.CONCURRENT_TRANSACTIONS
    h.write_markers()
    assert h.init(expected=(PID, 0)) == InitProducerIdResult(ErrorCode.NONE, PID, 1)


# -- epochs that are used up ------------------------------------------------------------------------------------------


def test_last_epoch_is_followed_by_another_producer_id(h):
    """32766 is the last epoch of a producer: 32767 is reserved for fencing."""
    at_epoch(h, LAST)
    assert h[ID].producer_id == PID
    assert h.init() == InitProducerIdResult(ErrorCode.NONE, PID + 1, 0)
    assert (h[ID].previous_producer_id, h[ID].last_producer_epoch) == (PID, -1)


def test_producer_that_missed_its_new_id_gets_it_again(h):
    at_epoch(h, LAST)
    assert h.init(expected=(PID, LAST)) == InitProducerIdResult(ErrorCode.NONE, PID + 1, 0)
    assert h.init(expected=(PID, LAST)) == InitProducerIdResult(ErrorCode.NONE, PID + 1, 0)
    assert h.init(expected=(PID, LAST - 1)).code is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("level", [0, 1, 2])
def test_producer_with_the_last_epoch_can_still_be_fenced(level):
    h = TransactionHarness(level=level)
    at_epoch(h, LAST)
    h.add((PID, LAST), "t-0", client_version=NEWER if level == 2 else OLDER)
    assert h.init().code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert h[ID].producer_epoch == LAST + 1
    h.write_markers()
    goes_on = level == 2  # the abort has another id, from which the next producer continues
    assert (h[ID].state, h[ID].producer_epoch) == (TransactionState.COMPLETE_ABORT, 0 if goes_on else LAST + 1)
    assert h.init() == InitProducerIdResult(ErrorCode.NONE, PID + 1, 1 if goes_on else 0)
