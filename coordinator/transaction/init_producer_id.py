"""InitProducerId for a transactional id: a producer takes the id over and fences the one before (KIP-98, KIP-360).

An open transaction is aborted first: the epoch of its producer is bumped, and the new producer has to retry.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from coordinator.clock import Now
from coordinator.shard import Producer
from coordinator.transaction.end_txn import abort_by_coordinator
from coordinator.transaction.shard import TransactionEffects, TransactionShard
from coordinator.transaction.state import PREPARED, TransactionState
from coordinator.transaction.transaction import Transaction, is_exhausted
from protocol.error_codes import ErrorCode
from protocol.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


class InitProducerIdResult(msgspec.Struct, frozen=True):
    """The response; the producer id and epoch are set if the code is NONE."""

    code: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


def check_init(shard: TransactionShard, timeout_ms: int) -> ErrorCode:
    """Return NONE, or INVALID_TRANSACTION_TIMEOUT for an invalid timeout."""
    if 0 < timeout_ms <= shard.settings.max_timeout_ms:
        return ErrorCode.NONE
    return ErrorCode.INVALID_TRANSACTION_TIMEOUT


def init_producer(
    shard: TransactionShard,
    transactional_id: str,
    timeout_ms: int,
    expected: Producer | None,
    new_producer_id: Callable[[], int],
    now: Now,
    effects: TransactionEffects,
) -> InitProducerIdResult:
    """Return a new epoch, or a new id and epoch, once the record is written.

    `expected`: the producer's current id and epoch.

    `new_producer_id` is called at most once. Errors: PRODUCER_FENCED; CONCURRENT_TRANSACTIONS while a transaction ends
    or has just been aborted.
    """
    found = shard.transactions.get(transactional_id)
    if found is None:
        found = Transaction(transactional_id, new_producer_id(), timeout_ms, now.wall_ms)
    elif found.state in PREPARED:  # before the producer is judged, as in Kafka
        return InitProducerIdResult(ErrorCode.CONCURRENT_TRANSACTIONS)
    elif expected is not None and not _is_known(found, expected):
        return InitProducerIdResult(ErrorCode.PRODUCER_FENCED)
    if found.state is TransactionState.ONGOING:
        abort_by_coordinator(shard, found, new_producer_id, now, effects)
        return InitProducerIdResult(ErrorCode.CONCURRENT_TRANSACTIONS)
    following = _following(found, timeout_ms, expected, new_producer_id, now)
    if following is None:
        return InitProducerIdResult(ErrorCode.PRODUCER_FENCED)
    shard.write(following, effects)
    return InitProducerIdResult(ErrorCode.NONE, following.producer_id, following.producer_epoch)


def _is_known(found: Transaction, expected: Producer) -> bool:
    """Return whether `expected` is the owner, or the one before, which may have missed the response."""
    return expected.producer_id == found.producer_id or (
        expected.producer_id == found.previous_producer_id and is_exhausted(expected.producer_epoch)
    )


def _following(
    found: Transaction, timeout_ms: int, expected: Producer | None, new_producer_id: Callable[[], int], now: Now
) -> Transaction | None:
    """Return the id with its next producer; None if the expected epoch is no longer current."""
    epoch = found.producer_epoch
    if found.is_exhausted and (expected is None or expected.producer_epoch == epoch):
        last_epoch = NO_PRODUCER_EPOCH if expected is None else epoch
        return found.with_producer_id(new_producer_id(), last_epoch, timeout_ms, now)
    if expected is None:
        return found.with_epoch(epoch + 1, NO_PRODUCER_EPOCH, timeout_ms, now)
    if epoch in (NO_PRODUCER_EPOCH, expected.producer_epoch):
        return found.with_epoch(epoch + 1, epoch, timeout_ms, now)
    if expected.producer_epoch == found.last_producer_epoch:  # the producer missed the response: repeat it
        return found.with_epoch(epoch, found.last_producer_epoch, timeout_ms, now)
    return None
