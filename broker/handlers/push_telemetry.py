"""PushTelemetry v0: metrics of a client (KIP-714).

ApiVersions does not tell it. Not served: a receiver for them; what may be pushed is dropped.
"""

from __future__ import annotations

from broker.apis import Reply, handles
from broker.dispatch import RequestContext
from metadata.decision import Refused
from protocol.errors import ErrorCode
from protocol.messages.push_telemetry import PUSH_TELEMETRY
from protocol.primitives import ZERO_UUID
from protocol.schema import Struct

# Ids that no client may have: none, and that of the metadata's topic.
_RESERVED = (ZERO_UUID, bytes(15) + b"\x01")


@handles(PUSH_TELEMETRY)
def push_telemetry(ctx: RequestContext, request: Struct) -> Reply:
    if request.client_instance_id in _RESERVED:
        return PUSH_TELEMETRY.response(error_code=ErrorCode.INVALID_REQUEST)
    try:
        ctx.broker.client_metrics.push(
            request.client_instance_id,
            ctx.connection,
            ctx.client_id,
            subscription_id=request.subscription_id,
            terminating=request.terminating,
            compression_type=request.compression_type,
            size_bytes=len(request.metrics),
        )
    except Refused as refused:
        return PUSH_TELEMETRY.response(error_code=refused.error_code)
    return PUSH_TELEMETRY.response()
