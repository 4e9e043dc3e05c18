"""DescribeCluster v0-v2 of a controller: the controllers, for tools and for brokers that start (KIP-700, KIP-919).

Versions: v1 may ask for controllers instead of brokers; v2 fenced brokers (KIP-1073). As in Kafka, a controller lists
no brokers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.access.authorization.operations import NOT_ASKED, cluster_operations
from broker.requests.context import RequestContext
from broker.requests.served_api import Reply
from metadata.features import CONTROLLER_REGISTRATION_LEVEL
from protocol.error_codes import ErrorCode
from protocol.messages.describe_cluster import DESCRIBE_CLUSTER, DescribeClusterBroker
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.access.authorization.guard import Guard
    from broker.controlling.raft_leader import RaftLeader
    from broker.metadata_cache import MetadataCache

_BROKERS, _CONTROLLERS = 1, 2


def describe_cluster(
    ctx: RequestContext, request: Struct, *, leader: RaftLeader, metadata: MetadataCache, guard: Guard | None
) -> Reply:
    """Return the addresses of this controller. Errors: UNSUPPORTED_VERSION before metadata.version 3.7-IV0."""
    if metadata.image.metadata_version < CONTROLLER_REGISTRATION_LEVEL:
        message = "Direct-to-controller communication is not supported with the current MetadataVersion."
        return DESCRIBE_CLUSTER.response(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=message)
    if request.endpoint_type == _BROKERS:
        message = "The request was sent to an endpoint of type CONTROLLER, but we wanted an endpoint of type BROKER"
        return DESCRIBE_CLUSTER.response(error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE, error_message=message)
    if request.endpoint_type != _CONTROLLERS:
        message = f"Unsupported endpoint type {request.endpoint_type}"
        return DESCRIBE_CLUSTER.response(error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, error_message=message)
    return DESCRIBE_CLUSTER.response(
        endpoint_type=_CONTROLLERS,
        cluster_id=leader.cluster_id,
        controller_id=leader.node_id,
        brokers=[
            DescribeClusterBroker(broker_id=leader.node_id, host=each.host, port=each.port)
            for each in leader.endpoints
            if each.name == ctx.connection.listener_name
        ],
        cluster_authorized_operations=(
            cluster_operations(guard, ctx) if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )
