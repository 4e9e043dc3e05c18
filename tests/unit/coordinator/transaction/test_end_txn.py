"""The end of transactions: by their producers in both protocols, and by the coordinator (KIP-98, KIP-890)."""

import pytest
from msgspec.structs import replace

from coordinator.transaction.end_txn import EndTxnResult
from coordinator.transaction.state import TransactionState
from coordinator.transaction.transaction import NEWER, OLDER
from protocol.error_codes import ErrorCode
from tests.support.transactions import ID, TransactionHarness, places

PID = 1_000
LAST = 32_766
_S, _E = TransactionState, ErrorCode


@pytest.mark.parametrize("commit", [True, False])
def test_newer_protocol_bumps_the_epoch(h, commit):
    """S20.10, S20.18: the decision is written, then answered; then the markers and the completion follow."""
    h.add((PID, 0), "t-0")
    assert h.end((PID, 0), commit) == EndTxnResult(_E.NONE, PID, 1)
    found = h[ID]
    assert found.state is (_S.PREPARE_COMMIT if commit else _S.PREPARE_ABORT)
    assert (found.producer_epoch, found.partitions) == (1, places("t-0"))
    assert list(h.shard.prepared) == [ID]
    h.write_markers()
    assert h[ID].state is (_S.COMPLETE_COMMIT if commit else _S.COMPLETE_ABORT)
    assert (h[ID].producer_epoch, h[ID].partitions) == (1, frozenset())
    assert not h.shard.prepared
    assert len(h.log) == 4


@pytest.mark.parametrize("commit", [True, False])
def test_older_protocol_keeps_its_epoch(h, commit):
    for _ in range(2):
        h.add((PID, 0), "t-0", client_version=OLDER)
        assert h.end((PID, 0), commit, client_version=OLDER) == EndTxnResult(_E.NONE, PID, 0)
        h.write_markers()
    assert (h[ID].producer_epoch, h[ID].client_version) == (0, 0)


def reach(h: TransactionHarness, state: TransactionState) -> None:
    """Bring an Empty id to a state, with a transaction of epoch 0 if it has one."""
    if state is _S.EMPTY:
        return
    h.add((PID, 0), "t-0")
    if state is _S.ONGOING:
        return
    h.end((PID, 0), state in (_S.PREPARE_COMMIT, _S.COMPLETE_COMMIT))
    if state in (_S.COMPLETE_COMMIT, _S.COMPLETE_ABORT):
        h.write_markers()
    assert h[ID].state is state


ABORTED = "aborted"


@pytest.mark.parametrize(
    ("state", "commit", "epoch", "expected"),
    [
        (_S.EMPTY, True, 0, _E.INVALID_TXN_STATE),
        (_S.EMPTY, False, 0, ABORTED),
        (_S.EMPTY, True, -1, _E.PRODUCER_FENCED),
        (_S.EMPTY, False, -1, _E.PRODUCER_FENCED),
        (_S.ONGOING, True, 1, _E.PRODUCER_FENCED),
        (_S.ONGOING, False, -1, _E.PRODUCER_FENCED),
        (_S.PREPARE_COMMIT, True, 0, _E.CONCURRENT_TRANSACTIONS),
        (_S.PREPARE_COMMIT, False, 0, _E.CONCURRENT_TRANSACTIONS),
        (_S.PREPARE_COMMIT, True, 1, _E.CONCURRENT_TRANSACTIONS),
        (_S.PREPARE_COMMIT, False, 1, _E.CONCURRENT_TRANSACTIONS),
        (_S.PREPARE_ABORT, False, 0, _E.CONCURRENT_TRANSACTIONS),
        (_S.PREPARE_ABORT, True, 0, _E.CONCURRENT_TRANSACTIONS),
        (_S.PREPARE_ABORT, False, 1, _E.CONCURRENT_TRANSACTIONS),
        (_S.PREPARE_ABORT, True, 2, _E.CONCURRENT_TRANSACTIONS),
        (_S.COMPLETE_COMMIT, True, 0, _E.NONE),
        (_S.COMPLETE_COMMIT, False, 0, _E.INVALID_TXN_STATE),
        (_S.COMPLETE_COMMIT, True, 1, _E.INVALID_TXN_STATE),
        (_S.COMPLETE_COMMIT, False, 1, ABORTED),
        (_S.COMPLETE_COMMIT, True, 2, _E.PRODUCER_FENCED),
        (_S.COMPLETE_ABORT, False, 0, _E.NONE),
        (_S.COMPLETE_ABORT, True, 0, _E.INVALID_TXN_STATE),
        (_S.COMPLETE_ABORT, True, 1, _E.INVALID_TXN_STATE),
        (_S.COMPLETE_ABORT, False, 1, ABORTED),
        (_S.COMPLETE_ABORT, False, -1, _E.PRODUCER_FENCED),
    ],
)
def test_newer_protocol_recognises_a_retry_by_its_epoch(h, state, commit, epoch, expected):
    reach(h, state)
    before, written = h[ID], len(h.log)
    answer = h.end((PID, epoch), commit)
    if expected is ABORTED:
        assert answer == EndTxnResult(_E.NONE, PID, before.producer_epoch + 1)
        assert (h[ID].state, h[ID].partitions, h[ID].start_ms) == (_S.PREPARE_ABORT, frozenset(), h.wall_ms)
        return
    assert answer.code is expected
    if expected is _E.NONE:
        assert (answer.producer_id, answer.producer_epoch) == (PID, 1)
    assert (h[ID], len(h.log)) == (before, written)


@pytest.mark.parametrize(
    ("state", "commit", "code"),
    [
        (_S.EMPTY, True, _E.INVALID_TXN_STATE),
        (_S.EMPTY, False, _E.INVALID_TXN_STATE),
        (_S.PREPARE_COMMIT, True, _E.CONCURRENT_TRANSACTIONS),
        (_S.PREPARE_COMMIT, False, _E.CONCURRENT_TRANSACTIONS),
        (_S.PREPARE_ABORT, True, _E.CONCURRENT_TRANSACTIONS),
        (_S.PREPARE_ABORT, False, _E.CONCURRENT_TRANSACTIONS),
        (_S.COMPLETE_COMMIT, True, _E.NONE),
        (_S.COMPLETE_COMMIT, False, _E.INVALID_TXN_STATE),
        (_S.COMPLETE_ABORT, True, _E.INVALID_TXN_STATE),
        (_S.COMPLETE_ABORT, False, _E.NONE),
    ],
)
def test_older_protocol_may_repeat_the_same_end(h, state, commit, code):
    if state is not _S.EMPTY:
        h.add((PID, 0), "t-0", client_version=OLDER)
        h.end((PID, 0), state in (_S.PREPARE_COMMIT, _S.COMPLETE_COMMIT), client_version=OLDER)
        if state in (_S.COMPLETE_COMMIT, _S.COMPLETE_ABORT):
            h.write_markers()
    before, written = h[ID], len(h.log)
    assert h.end((PID, 0), commit, client_version=OLDER).code is code
    assert (h[ID], len(h.log)) == (before, written)


@pytest.mark.parametrize("client_version", [OLDER, NEWER])
@pytest.mark.parametrize(
    ("producer", "transactional_id", "code"),
    [
        ((PID, 0), "", _E.INVALID_REQUEST),
        ((PID, 0), "other", _E.INVALID_PRODUCER_ID_MAPPING),
        ((PID + 1, 0), ID, _E.INVALID_PRODUCER_ID_MAPPING),
        ((PID, 7), ID, _E.PRODUCER_FENCED),
        ((PID, -1), ID, _E.PRODUCER_FENCED),
    ],
)
def test_unknown_producers_are_rejected(h, client_version, producer, transactional_id, code):
    h.add((PID, 0), "t-0", client_version=client_version)
    before = h[ID]
    answer = h.end(producer, True, transactional_id=transactional_id, client_version=client_version)
    assert answer == EndTxnResult(code)
    assert h[ID] == before


def test_zombie_cannot_end_its_successors_transaction(h):
    """S20.17."""
    h.init()
    h.add((PID, 1), "t-0")
    assert h.end((PID, 0), True).code is _E.PRODUCER_FENCED
    assert h.end((PID, 0), True, client_version=OLDER).code is _E.PRODUCER_FENCED


# -- epochs that are used up ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_last_epoch_is_followed_by_another_producer_id(h, commit):
    while h.init().producer_epoch < LAST:
        pass
    h.add((PID, LAST), "t-0")
    assert h.end((PID, LAST), commit) == EndTxnResult(_E.NONE, PID + 1, 0)
    prepared = h[ID]
    assert (prepared.producer_id, prepared.producer_epoch, prepared.next_producer_id) == (PID, LAST + 1, PID + 1)
    assert h.end((PID, LAST), commit).code is _E.CONCURRENT_TRANSACTIONS
    h.write_markers()
    complete = h[ID]
    assert (complete.producer_id, complete.producer_epoch) == (PID + 1, 0)
    assert (complete.previous_producer_id, complete.next_producer_id) == (PID, -1)
    assert h.end((PID, LAST), commit) == EndTxnResult(_E.NONE, PID + 1, 0)
    assert h.end((PID, LAST), not commit).code is _E.INVALID_TXN_STATE
    assert h.add((PID + 1, 0), "t-0") is _E.NONE


# -- without the producer ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("level", "client_version"), [(1, 0), (2, 2)])
def test_timed_out_transaction_is_aborted(level, client_version):
    """S20.16: the coordinator aborts the transaction of a dead producer, which is fenced if it returns."""
    h = TransactionHarness(level=level)
    h.init(timeout_ms=1_000)
    h.add((PID, 0), "t-0", client_version=client_version)
    h.wall_ms += 900
    h.add((PID, 0), "t-1", client_version=client_version)
    h.wall_ms += 100
    assert h.abort_timed_out() == []
    h.wall_ms += 1
    assert h.abort_timed_out() == [ID]
    assert (h[ID].state, h[ID].producer_epoch) == (_S.PREPARE_ABORT, 1)
    assert h.abort_timed_out() == []
    h.write_markers()
    assert h.add((PID, 0), "t-0") is _E.PRODUCER_FENCED
    assert h.end((PID, 0), True, client_version=OLDER).code is _E.PRODUCER_FENCED
    assert not h.shard.ongoing


def test_two_phase_transaction_does_not_time_out(h):
    """KIP-939: another broker may have begun it."""
    h.init(timeout_ms=2**31 - 1)
    h.add((PID, 1), "t-0")
    h.wall_ms += 2**32
    assert h.abort_timed_out() == []


def test_abort_of_the_last_epoch_changes_the_producer_id(h):
    """The next owner continues with the new id; the abort waits while no id is available."""
    h.shard.transactions[ID] = replace(h[ID], producer_epoch=LAST)
    h.add((PID, LAST), "t-0")
    h.wall_ms += 60_001
    ids, h.new_producer_id = h.new_producer_id, lambda: None
    assert h.abort_timed_out() == []
    h.new_producer_id = ids
    assert h.abort_timed_out() == [ID]
    assert (h[ID].producer_id, h[ID].producer_epoch, h[ID].next_producer_id) == (PID, LAST + 1, PID + 1)
    h.write_markers()
    assert (h[ID].state, h[ID].producer_id, h[ID].producer_epoch) == (_S.COMPLETE_ABORT, PID + 1, 0)
    assert h.add((PID, LAST), "t-0") is _E.INVALID_PRODUCER_ID_MAPPING


def test_failed_abort_is_retried(h):
    h.add((PID, 0), "t-0")
    h.wall_ms += 60_001
    h.failure = _E.NOT_COORDINATOR
    assert h.abort_timed_out() == [ID]
    assert h[ID].state is _S.ONGOING
    h.failure = _E.NONE
    h.abort_timed_out()
    assert (h[ID].state, h[ID].producer_epoch) == (_S.PREPARE_ABORT, 1)


@pytest.mark.parametrize("state", [_S.EMPTY, _S.ONGOING, _S.PREPARE_COMMIT, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT])
def test_unused_ids_expire(h, state):
    """transactional.id.expiration.ms after the last change."""
    reach(h, state)
    h.wall_ms += h.settings.id_expiration_ms - 1
    assert h.remove_expired() == []
    h.wall_ms += 1
    is_idle = state not in (_S.ONGOING, _S.PREPARE_COMMIT)
    assert h.remove_expired() == ([ID] if is_idle else [])
    assert (ID in h.loaded().transactions) is not is_idle
