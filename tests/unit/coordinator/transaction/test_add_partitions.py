"""Adding partitions to a transaction, and verifying them (KIP-98, KIP-890)."""

import pytest

from coordinator.transaction.state import TransactionState
from coordinator.transaction.transaction import NEWER, OLDER
from protocol.error_codes import ErrorCode
from tests.support.transactions import ID, places

PID = 1_000


def test_first_partition_begins_the_transaction(h):
    """S20.8: the partitions are in the log before the response; later ones are added to them."""
    h.wall_ms += 5
    assert h.add((PID, 0), "t-0") is ErrorCode.NONE
    started_ms = h.wall_ms
    h.wall_ms += 5
    assert h.add((PID, 0), "t-1", "u-0") is ErrorCode.NONE
    found = h[ID]
    assert (found.state, found.partitions) == (TransactionState.ONGOING, places("t-0", "t-1", "u-0"))
    assert (found.start_ms, found.update_ms) == (started_ms, h.wall_ms)
    assert len(h.log) == 3


def test_known_partitions_are_not_written_again(h):
    h.add((PID, 0), "t-0", "t-1")
    assert h.add((PID, 0), "t-1") is ErrorCode.NONE
    assert len(h.log) == 2


def test_no_partitions_still_begin_a_transaction(h):
    assert h.add((PID, 0)) is ErrorCode.NONE
    assert h[ID].state is TransactionState.ONGOING


@pytest.mark.parametrize("client_version", [OLDER, NEWER])
def test_protocol_of_the_client_is_remembered(h, client_version):
    h.add((PID, 0), "t-0", client_version=client_version)
    assert h[ID].client_version == client_version


@pytest.mark.parametrize(
    ("producer", "transactional_id", "code"),
    [
        ((PID, 0), "", ErrorCode.INVALID_REQUEST),
        ((PID, 0), "other", ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ((PID, 0), "x" * 32_767, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ((PID + 1, 0), ID, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ((-1, -1), ID, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ((PID, 1), ID, ErrorCode.PRODUCER_FENCED),
        ((PID, -1), ID, ErrorCode.PRODUCER_FENCED),
    ],
)
def test_unknown_producers_are_rejected(h, producer, transactional_id, code):
    h.add((PID, 0), "t-0")
    before = dict(h.shard.transactions)
    assert h.add(producer, "t-1", transactional_id=transactional_id) is code
    assert h.verify(producer, "t-0", transactional_id=transactional_id) == [code]
    assert h.shard.transactions == before


@pytest.mark.parametrize("commit", [True, False])
def test_no_partition_is_added_while_a_transaction_ends(h, commit):
    h.add((PID, 0), "t-0")
    h.end((PID, 0), commit)
    assert h.add((PID, 1), "t-1") is ErrorCode.CONCURRENT_TRANSACTIONS
    assert h.verify((PID, 1), "t-0") == [ErrorCode.CONCURRENT_TRANSACTIONS]
    h.write_markers()
    assert h.add((PID, 1), "t-1") is ErrorCode.NONE
    assert h[ID].partitions == places("t-1")


def test_verification_returns_which_partitions_are_in(h):
    """A batch for another partition would leave an open transaction there."""
    assert h.verify((PID, 0), "t-0") == [ErrorCode.TRANSACTION_ABORTABLE]
    h.add((PID, 0), "t-0")
    assert h.verify((PID, 0), "t-0", "t-1") == [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE]
    assert len(h.log) == 2


def test_failed_write_changes_nothing(h):
    h.failure = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert h.add((PID, 0), "t-0") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert h[ID].state is TransactionState.EMPTY
