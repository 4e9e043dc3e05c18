"""PushTelemetry v0: receive metrics of a client (KIP-714), for the broker's metrics endpoint.

ApiVersions lists it if there is such an endpoint. Otherwise pushed metrics are dropped. Not served: histograms and
summaries, which no client pushes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from metadata.decision import Refused
from protocol.error_codes import ErrorCode
from protocol.messages.push_telemetry import PUSH_TELEMETRY
from protocol.primitives import ZERO_UUID
from protocol.schema import Struct
from runtime.deferred import after

if TYPE_CHECKING:
    from broker.observability.telemetry.subscriptions import ClientMetrics
    from runtime.thread_pool import ThreadPool

# Ids that no client may have: zeros, and the id of the metadata topic.
_RESERVED = (ZERO_UUID, bytes(15) + b"\x01")


@handles(PUSH_TELEMETRY)
def push_telemetry(
    ctx: RequestContext, request: Struct, *, client_metrics: ClientMetrics, offload: ThreadPool
) -> Reply:
    if request.client_instance_id in _RESERVED:
        return PUSH_TELEMETRY.response(error_code=ErrorCode.INVALID_REQUEST)
    try:
        instance = client_metrics.push(
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
    if client_metrics.received is None or not request.metrics:
        return PUSH_TELEMETRY.response(error_code=client_metrics.take(instance, []))
    from broker.observability.telemetry.received import read_payload  # not needed without a metrics endpoint

    # In a thread: a small payload may hold many metrics.
    read = offload(read_payload, bytes(request.metrics), request.compression_type, client_metrics.max_bytes)
    # A client that terminates pushes its last metrics and disconnects.
    return after(
        read,
        lambda: PUSH_TELEMETRY.response(error_code=client_metrics.take(instance, read.result())),
        even_if_cancelled=True,
    )
