"""DescribeCluster v0-v2: list the brokers and the cluster's id (KIP-700).

Versions: v1 may ask for controllers instead of brokers (KIP-919); v2 includes fenced brokers on request (KIP-1073). A
listener for brokers answers a request for controllers with MISMATCHED_ENDPOINT_TYPE, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.access.authorization.operations import NOT_ASKED, cluster_operations
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from protocol.error_codes import ErrorCode
from protocol.messages.describe_cluster import DESCRIBE_CLUSTER, DescribeClusterBroker
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.access.authorization.guard import Guard
    from broker.metadata_cache import MetadataCache
    from broker.requests.advertised_endpoints import AdvertisedEndpoints

BROKERS, CONTROLLERS = 1, 2


@handles(DESCRIBE_CLUSTER)
def describe_cluster(
    ctx: RequestContext,
    request: Struct,
    *,
    metadata: MetadataCache,
    endpoints: AdvertisedEndpoints,
    guard: Guard | None,
) -> Reply:
    if request.endpoint_type == CONTROLLERS:
        message = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
        return DESCRIBE_CLUSTER.response(error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE, error_message=message)
    if request.endpoint_type != BROKERS:
        message = f"Unsupported endpoint type {request.endpoint_type}"
        return DESCRIBE_CLUSTER.response(error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, error_message=message)
    brokers = [
        DescribeClusterBroker(
            broker_id=node.node_id, host=node.host, port=node.port, rack=node.rack, is_fenced=node.fenced
        )
        for node in endpoints.nodes(ctx.connection, include_fenced=request.include_fenced_brokers)
    ]
    return DESCRIBE_CLUSTER.response(
        cluster_id=metadata.cluster_id,
        controller_id=endpoints.controller_id(),
        brokers=brokers,
        cluster_authorized_operations=(
            cluster_operations(guard, ctx) if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )
