"""AddOffsetsToTxn v0-v4: add the partition of a group's offsets to a transaction (KIP-98).

Versions: v2 PRODUCER_FENCED (KIP-588), before INVALID_PRODUCER_EPOCH; v3 flexible; v4 TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.requests.dispatcher import RequestContext
from broker.requests.error_code_map import fenced_code_for
from broker.requests.served_api import Reply, handles
from coordinator.shard import Producer
from coordinator.transaction.transaction import OLDER, TopicPartition
from metadata.topic_names import CONSUMER_OFFSETS
from protocol.error_codes import ErrorCode
from protocol.messages.add_offsets_to_txn import ADD_OFFSETS_TO_TXN
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.coordinators.group.coordinator import GroupCoordinator
    from broker.coordinators.transaction.coordinator import TransactionCoordinator

FIRST_VERSION_KNOWING_PRODUCER_FENCED = 2


@handles(ADD_OFFSETS_TO_TXN)
def add_offsets_to_txn(
    ctx: RequestContext, request: Struct, *, groups: GroupCoordinator, transactions: TransactionCoordinator
) -> Reply:
    def add() -> Reply:
        index = groups.index_of(request.group_id)
        if index is None:
            return ADD_OFFSETS_TO_TXN.response(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        place = TopicPartition(CONSUMER_OFFSETS, index)
        producer = Producer(request.producer_id, request.producer_epoch)
        # Clients of the newer protocol use TxnOffsetCommit instead.
        code = transactions.join(request.transactional_id, producer, frozenset({place}), OLDER)
        code = fenced_code_for(ctx.api_version, FIRST_VERSION_KNOWING_PRODUCER_FENCED, code)
        return transactions.after_commit((request.transactional_id,), response(code), response)

    return groups.with_topic(add)


def response(code: ErrorCode) -> Struct:
    return ADD_OFFSETS_TO_TXN.response(error_code=code)
