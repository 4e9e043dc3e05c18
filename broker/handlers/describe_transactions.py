"""DescribeTransactions v0: describe the state of the transactions of transactional ids (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import handles
from coordinator.transaction.admin import describe_transaction
from protocol.error_codes import ErrorCode
from protocol.messages.describe_transactions import DESCRIBE_TRANSACTIONS, TransactionState
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.coordinators.transaction.coordinator import TransactionCoordinator


@handles(DESCRIBE_TRANSACTIONS)
def describe_transactions(ctx: RequestContext, request: Struct, *, transactions: TransactionCoordinator) -> Struct:
    """Return one answer for each id, also if it is named twice."""
    return DESCRIBE_TRANSACTIONS.response(
        transaction_states=[_describe(transactions, each) for each in request.transactional_ids]
    )


def _describe(transactions: TransactionCoordinator, transactional_id: str) -> Struct:
    shard = transactions.at(transactional_id) if transactional_id else ErrorCode.INVALID_REQUEST
    if isinstance(shard, ErrorCode):
        return TransactionState(transactional_id=transactional_id, error_code=shard)
    return describe_transaction(shard, transactional_id)
