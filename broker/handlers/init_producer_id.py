"""InitProducerId v0-v5: a producer id, without which no idempotent producer writes (KIP-98).

Versions: v2 flexible; v3 brings a known id and epoch (KIP-360), which without a transactional id is not looked at;
v4 PRODUCER_FENCED (KIP-588); v5 TRANSACTION_ABORTABLE (KIP-890). Not served: transactional ids, as transactions do
not exist here yet. UNSUPPORTED_VERSION makes clients give up at once; the codes of a coordinator would have them try
again until they time out.
"""

from __future__ import annotations

from broker.dispatch import Reply, RequestContext, handles
from protocol.errors import ErrorCode
from protocol.messages.init_producer_id import INIT_PRODUCER_ID
from protocol.schema import Struct

NONE = -1


@handles(INIT_PRODUCER_ID)
def init_producer_id(ctx: RequestContext, request: Struct) -> Reply:
    if (request.producer_id == NONE) != (request.producer_epoch == NONE) or request.transactional_id == "":
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _refused(ErrorCode.UNSUPPORTED_VERSION)
    producer_ids = ctx.broker.producer_ids
    if producer_ids.available:
        return _given(producer_ids.next())
    return producer_ids.replenish().then(lambda _: _given(producer_ids.next()))


def _given(producer_id: int) -> Struct:
    return INIT_PRODUCER_ID.response(producer_id=producer_id, producer_epoch=0)


def _refused(error_code: ErrorCode) -> Struct:
    return INIT_PRODUCER_ID.response(error_code=error_code, producer_id=NONE, producer_epoch=NONE)
