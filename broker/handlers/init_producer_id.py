"""InitProducerId v0-v6: return a producer id, which every idempotent producer needs (KIP-98).

Versions: v2 flexible; v3 a known id and epoch (KIP-360), which count only with a transactional id; v4 PRODUCER_FENCED
(KIP-588), before INVALID_PRODUCER_EPOCH; v5 TRANSACTION_ABORTABLE (KIP-890). v6, with two-phase commit (KIP-939), is
served only if unstable versions are enabled. Prepared transactions are not kept, as in Kafka 4.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.requests.dispatcher import RequestContext
from broker.requests.error_code_map import fenced_code_for
from broker.requests.served_api import Reply, handles
from coordinator.effects import Effects
from coordinator.shard import Producer
from coordinator.transaction.init_producer_id import check_init, init_producer
from coordinator.transaction.shard import TransactionEffects
from coordinator.transaction.transaction import NO_TIMEOUT_MS
from protocol.error_codes import ErrorCode
from protocol.messages.init_producer_id import INIT_PRODUCER_ID
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.coordinators.transaction.coordinator import TransactionCoordinator
    from broker.coordinators.transaction.producer_ids import ProducerIds
    from config import BrokerConfig

NONE = -1
FIRST_VERSION_KNOWING_PRODUCER_FENCED = 4


@handles(INIT_PRODUCER_ID)
def init_producer_id(
    ctx: RequestContext,
    request: Struct,
    *,
    config: BrokerConfig,
    transactions: TransactionCoordinator,
    producer_ids: ProducerIds,
) -> Reply:
    if (request.producer_id == NONE) != (request.producer_epoch == NONE) or request.transactional_id == "":
        return _refused(ctx, ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        return producer_ids.with_ids(lambda: _given(producer_ids.next(), 0))
    if request.enable2_pc and not config.get_bool("transaction.two.phase.commit.enable"):
        return _refused(ctx, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if request.keep_prepared_txn:
        return _refused(ctx, ErrorCode.UNSUPPORTED_VERSION)
    # An id must be at hand before the decision, which does not wait, whether or not it needs one.
    return transactions.with_topic(
        lambda: producer_ids.with_ids(lambda: _take_over(ctx, request, transactions, producer_ids))
    )


def _take_over(
    ctx: RequestContext, request: Struct, transactions: TransactionCoordinator, producer_ids: ProducerIds
) -> Reply:
    shard = transactions.at(request.transactional_id)
    if isinstance(shard, ErrorCode):
        return _refused(ctx, shard)
    timeout_ms = NO_TIMEOUT_MS if request.enable2_pc else request.transaction_timeout_ms
    code = ErrorCode.NONE if request.enable2_pc else check_init(shard, timeout_ms)
    if code is not ErrorCode.NONE:
        return _refused(ctx, code)
    effects: TransactionEffects = Effects()
    given = init_producer(
        shard,
        request.transactional_id,
        timeout_ms,
        None if request.producer_id == NONE else Producer(request.producer_id, request.producer_epoch),
        producer_ids.next,
        transactions.now(),
        effects,
    )
    code = transactions.run(shard, effects) or given.code
    if code is not ErrorCode.NONE:
        return _refused(ctx, code)
    answer = _given(given.producer_id, given.producer_epoch)
    return transactions.after_commit((request.transactional_id,), answer, lambda code: _refused(ctx, code))


def _given(producer_id: int, producer_epoch: int) -> Struct:
    return INIT_PRODUCER_ID.response(producer_id=producer_id, producer_epoch=producer_epoch)


def _refused(ctx: RequestContext, code: ErrorCode) -> Struct:
    code = fenced_code_for(ctx.api_version, FIRST_VERSION_KNOWING_PRODUCER_FENCED, code)
    return INIT_PRODUCER_ID.response(error_code=code, producer_id=NONE, producer_epoch=NONE)
