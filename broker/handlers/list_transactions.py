"""ListTransactions v0-v2: list the transactional ids of this broker (KIP-664).

Versions: v1 a filter by duration (KIP-994); v2 a filter by a regular expression that has to match the whole id
(KIP-1152). Names of states are case-sensitive. Unknown names match nothing and are returned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import handles
from coordinator.group.consumer.expressions import compile_expression
from coordinator.group.refused import Refused
from coordinator.transaction.admin import Filters
from coordinator.transaction.admin import list_transactions as list_shard
from coordinator.transaction.state import BY_TEXT
from protocol.error_codes import ErrorCode
from protocol.messages.list_transactions import LIST_TRANSACTIONS
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.coordinators.transaction.coordinator import TransactionCoordinator
    from runtime.clock import Clock


@handles(LIST_TRANSACTIONS)
def list_transactions(
    ctx: RequestContext, request: Struct, *, transactions: TransactionCoordinator, clock: Clock
) -> Struct:
    try:
        pattern = request.transactional_id_pattern
        matches = compile_expression(pattern).fullmatch if pattern else None
    except Refused:
        return LIST_TRANSACTIONS.response(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    shards = transactions.shards()
    if isinstance(shards, ErrorCode):
        return LIST_TRANSACTIONS.response(error_code=shards)
    names = dict.fromkeys(request.state_filters)
    filters = Filters(
        states=frozenset(BY_TEXT[name] for name in names if name in BY_TEXT) if names else None,
        producer_ids=frozenset(request.producer_id_filters),
        duration_ms=request.duration_filter,
        matches=matches,
    )
    now_ms = clock.now_ms()
    return LIST_TRANSACTIONS.response(
        unknown_state_filters=[name for name in names if name not in BY_TEXT],
        transaction_states=[each for shard in shards for each in list_shard(shard, filters, now_ms)],
    )
