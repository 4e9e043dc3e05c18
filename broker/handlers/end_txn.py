"""EndTxn v0-v5: commit or abort the transaction of a producer (KIP-98).

Versions: v2 PRODUCER_FENCED (KIP-588), before INVALID_PRODUCER_EPOCH; v3 flexible; v4 TRANSACTION_ABORTABLE; v5 bumps
the producer epoch and returns it (KIP-890). The answer is sent once the decision is in the coordinator's log. The
markers are written to the partitions after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.requests.dispatcher import RequestContext
from broker.requests.error_code_map import fenced_code_for
from broker.requests.served_api import Reply, handles
from coordinator.effects import Effects
from coordinator.shard import Producer
from coordinator.transaction.end_txn import EndTxnResult, end_transaction
from coordinator.transaction.shard import TransactionEffects
from coordinator.transaction.transaction import NEWER, OLDER
from protocol.error_codes import ErrorCode
from protocol.messages.end_txn import END_TXN
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.coordinators.transaction.coordinator import TransactionCoordinator
    from broker.coordinators.transaction.producer_ids import ProducerIds

FIRST_VERSION_KNOWING_PRODUCER_FENCED = 2
FIRST_VERSION_WITH_EPOCH_BUMP = 5


@handles(END_TXN)
def end_txn(
    ctx: RequestContext, request: Struct, *, transactions: TransactionCoordinator, producer_ids: ProducerIds
) -> Reply:
    if _needs_producer_id(ctx, request, transactions):
        return producer_ids.with_ids(lambda: _end(ctx, request, transactions, producer_ids))
    return _end(ctx, request, transactions, producer_ids)


def _needs_producer_id(ctx: RequestContext, request: Struct, transactions: TransactionCoordinator) -> bool:
    """Whether the epochs of the producer are used up: then a new id must be at hand before the decision."""
    if ctx.api_version < FIRST_VERSION_WITH_EPOCH_BUMP:
        return False
    shard = transactions.at(request.transactional_id)
    found = None if isinstance(shard, ErrorCode) else shard.transactions.get(request.transactional_id)
    return found is not None and found.is_exhausted


def _end(
    ctx: RequestContext, request: Struct, transactions: TransactionCoordinator, producer_ids: ProducerIds
) -> Reply:
    if not request.transactional_id:
        return _response(ctx, EndTxnResult(ErrorCode.INVALID_REQUEST))
    shard = transactions.at(request.transactional_id)
    if isinstance(shard, ErrorCode):
        return _response(ctx, EndTxnResult(shard))
    effects: TransactionEffects = Effects()
    ended = end_transaction(
        shard,
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        request.committed,
        NEWER if ctx.api_version >= FIRST_VERSION_WITH_EPOCH_BUMP else OLDER,
        producer_ids.next,
        transactions.now(),
        effects,
    )
    code = transactions.run(shard, effects)
    answer = _response(ctx, EndTxnResult(code) if code is not ErrorCode.NONE else ended)
    return transactions.after_commit(
        (request.transactional_id,), answer, lambda code: _response(ctx, EndTxnResult(code))
    )


def _response(ctx: RequestContext, ended: EndTxnResult) -> Struct:
    code = fenced_code_for(ctx.api_version, FIRST_VERSION_KNOWING_PRODUCER_FENCED, ended.code)
    return END_TXN.response(error_code=code, producer_id=ended.producer_id, producer_epoch=ended.producer_epoch)
