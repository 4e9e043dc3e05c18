"""GetTelemetrySubscriptions v0: return the metrics that a client has to push, and how often (KIP-714).

ApiVersions lists it if there is an endpoint for metrics. Requests are answered in any case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from metadata.decision import Refused
from protocol.messages.get_telemetry_subscriptions import GET_TELEMETRY_SUBSCRIPTIONS
from protocol.primitives import ZERO_UUID
from protocol.schema import Struct
from runtime.ids import random_id

if TYPE_CHECKING:
    from broker.observability.telemetry.subscriptions import ClientMetrics

# zstd, lz4, gzip, snappy: in the order of preference
_COMPRESSION_TYPES = (4, 3, 1, 2)


@handles(GET_TELEMETRY_SUBSCRIPTIONS)
def get_telemetry_subscriptions(ctx: RequestContext, request: Struct, *, client_metrics: ClientMetrics) -> Reply:
    instance_id = request.client_instance_id
    while instance_id == ZERO_UUID or (
        instance_id != request.client_instance_id and client_metrics.is_known(instance_id)
    ):
        instance_id = random_id()
    try:
        instance = client_metrics.ask(instance_id, ctx.connection, ctx.client_id)
    except Refused as refused:
        return GET_TELEMETRY_SUBSCRIPTIONS.response(error_code=refused.error_code)
    return GET_TELEMETRY_SUBSCRIPTIONS.response(
        client_instance_id=instance_id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=list(_COMPRESSION_TYPES),
        push_interval_ms=instance.interval_ms,
        telemetry_max_bytes=client_metrics.max_bytes,
        delta_temporality=True,
        requested_metrics=list(instance.metrics),
    )
