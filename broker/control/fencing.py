"""Fence a transactional producer, as another producer with its transactional id would."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.effects import Effects
from coordinator.transaction.init_producer_id import init_producer
from coordinator.transaction.shard import TransactionEffects
from protocol.error_codes import ErrorCode
from runtime.deferred import Deferred, after

if TYPE_CHECKING:
    from broker.coordinators.transaction.coordinator import TransactionCoordinator
    from broker.coordinators.transaction.producer_ids import ProducerIds
    from runtime.timers import Timers

_AGAIN_MS = 20


def fence(
    transactions: TransactionCoordinator, producer_ids: ProducerIds, timers: Timers, transactional_id: str
) -> Deferred[ErrorCode]:
    """Bump the epoch of a transactional id, which fences its producer. An ongoing transaction is aborted first.

    Resolves to NONE or an error: INVALID_PRODUCER_ID_MAPPING for an id that no producer has used,
    NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
    """
    ready = (
        Deferred.resolved(None) if producer_ids.available else producer_ids.replenish()
    )  # the id may be at its last epoch
    return after(ready, lambda: _take_over(transactions, producer_ids, timers, transactional_id))


def _take_over(
    transactions: TransactionCoordinator, producer_ids: ProducerIds, timers: Timers, transactional_id: str
) -> ErrorCode | Deferred[ErrorCode]:
    shard = transactions.at(transactional_id)
    if isinstance(shard, ErrorCode):
        return shard
    known = shard.transactions.get(transactional_id)
    if known is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    effects: TransactionEffects = Effects()
    now = transactions.now()
    given = init_producer(shard, transactional_id, known.timeout_ms, None, producer_ids.next, now, effects)
    code = transactions.run(shard, effects) or given.code
    if code is not ErrorCode.CONCURRENT_TRANSACTIONS:
        return code
    # The transaction is being aborted: retry, as a new producer would. Only then is the old one fenced.
    pause: Deferred[None] = Deferred()
    timers.call_later(_AGAIN_MS, lambda: pause.resolve(None))
    return after(pause, lambda: fence(transactions, producer_ids, timers, transactional_id))
