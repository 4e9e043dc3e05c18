"""EndTxn: commit or abort a transaction; and abort one that its producer does not end (see also timeout.py).

There are two protocols. In the older one (EndTxn up to v4) the epoch stays, and a request for the same end may be
repeated. In the newer one (KIP-890) the decision has the next epoch, which is the producer's from then on. So a request
with the previous epoch is a retry, and one with the current epoch is about the next transaction:

| state | abort, retry | abort | commit, retry | commit |
|---|---|---|---|---|
| Empty | PRODUCER_FENCED | aborted | PRODUCER_FENCED | INVALID_TXN_STATE |
| CompleteAbort | NONE | aborted | INVALID_TXN_STATE | INVALID_TXN_STATE |
| CompleteCommit | INVALID_TXN_STATE | aborted | NONE | INVALID_TXN_STATE |
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from coordinator.clock import Now
from coordinator.shard import Producer
from coordinator.transaction.shard import TransactionEffects, TransactionShard
from coordinator.transaction.state import PREPARED, TransactionState
from coordinator.transaction.transaction import NEWER, Transaction, is_exhausted
from protocol.error_codes import ErrorCode
from protocol.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

_S = TransactionState


class EndTxnResult(msgspec.Struct, frozen=True):
    """The response; with NONE also the producer of the next transaction."""

    code: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


def end_transaction(
    shard: TransactionShard,
    transactional_id: str,
    producer: Producer,
    commit: bool,
    client_version: int,
    new_producer_id: Callable[[], int],
    now: Now,
    effects: TransactionEffects,
) -> EndTxnResult:
    """Commit or abort a transaction at its producer's request. Once that is written, its markers are due:
    `shard.prepared`.

    Errors: INVALID_REQUEST for an empty id, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, INVALID_TXN_STATE,
    CONCURRENT_TRANSACTIONS while markers are being written. That also answers the opposite end, as in Kafka: its
    transaction is already on its way to Complete (`pendingState`), and only a complete one refuses the other end.
    """
    if not transactional_id:
        return EndTxnResult(ErrorCode.INVALID_REQUEST)
    found = shard.transactions.get(transactional_id)
    if found is None:
        return EndTxnResult(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    judge = _judge_bumping if client_version >= NEWER else _judge_older
    code = judge(found, producer, commit)
    if code is not None:
        return (
            EndTxnResult(code, found.producer_id, found.producer_epoch)
            if code is ErrorCode.NONE
            else EndTxnResult(code)
        )
    bumps = client_version >= NEWER
    next_producer_id = new_producer_id() if bumps and found.is_exhausted else NO_PRODUCER_ID
    prepared = found.prepared(commit, client_version, now, next_producer_id)
    shard.write(prepared, effects)
    completed = prepared.completed(now)
    return EndTxnResult(ErrorCode.NONE, completed.producer_id, completed.producer_epoch)


def _judge_older(found: Transaction, producer: Producer, commit: bool) -> ErrorCode | None:
    """Return the response's error, or None to end the transaction."""
    if found.producer_id != producer.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if found.producer_epoch != producer.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if found.state is _S.ONGOING:
        return None
    if found.state is (_S.COMPLETE_COMMIT if commit else _S.COMPLETE_ABORT):
        return ErrorCode.NONE
    return ErrorCode.CONCURRENT_TRANSACTIONS if found.state in PREPARED else ErrorCode.INVALID_TXN_STATE


def _judge_bumping(found: Transaction, producer: Producer, commit: bool) -> ErrorCode | None:
    """Return the same as `_judge_older`, where EndTxn bumps the producer's epoch (KIP-890)."""
    if found.state in PREPARED:
        # Before the producer is judged, as in Kafka: with its next epoch or id it may end its next transaction already.
        return ErrorCode.CONCURRENT_TRANSACTIONS
    rotated = (
        found.previous_producer_id == producer.producer_id
        and found.producer_epoch == 0
        and is_exhausted(producer.producer_epoch)
    )
    comes_again = rotated or found.producer_epoch == producer.producer_epoch + 1
    if found.producer_id != producer.producer_id and not rotated:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    is_complete = found.state in (_S.COMPLETE_COMMIT, _S.COMPLETE_ABORT)
    if found.producer_epoch != producer.producer_epoch and not (is_complete and comes_again):
        return ErrorCode.PRODUCER_FENCED
    if found.state is _S.ONGOING:
        return None
    if is_complete and comes_again:
        same_end = found.state is (_S.COMPLETE_COMMIT if commit else _S.COMPLETE_ABORT)
        return ErrorCode.NONE if same_end else ErrorCode.INVALID_TXN_STATE
    return ErrorCode.INVALID_TXN_STATE if commit else None  # None: abort a transaction without partitions


# -- transactions that the coordinator ends ----------------------------------------------------------------------------


def abort_by_coordinator(
    shard: TransactionShard,
    found: Transaction,
    new_producer_id: Callable[[], int | None],
    now: Now,
    effects: TransactionEffects,
) -> bool:
    """Abort an open transaction and fence its producer, because of another producer or the timeout.

    If the epochs of the producer id are used up, a new producer id is needed. Returns False if none is available now.
    """
    level = shard.level()
    if level < NEWER:
        shard.write(found.fenced().prepared(False, 0, now), effects)
        return True
    next_producer_id = new_producer_id() if found.is_exhausted else NO_PRODUCER_ID
    if next_producer_id is None:
        return False
    shard.write(found.prepared(False, level, now, next_producer_id), effects)
    return True


def complete(shard: TransactionShard, transactional_id: str, now: Now, effects: TransactionEffects) -> None:
    """Complete a decided transaction, once all of its markers are written."""
    found = shard.transactions.get(transactional_id)
    if found is not None and found.state in PREPARED:
        shard.write(found.completed(now), effects)
