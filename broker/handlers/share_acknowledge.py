"""ShareAcknowledge v1-v2: acknowledge records without a fetch (KIP-932).

Versions: v2 lock renewal (KIP-1222).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinators.share.requests import (
    Acknowledging,
    check_caller,
    serves_share_groups,
)
from broker.coordinators.share.sessions import FINAL_EPOCH, SessionKey
from broker.handlers.share_fetch import acknowledged_of
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from coordinator.group.refused import Refused
from protocol.error_codes import ErrorCode
from protocol.messages.share_acknowledge import (
    SHARE_ACKNOWLEDGE,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeTopicResponse,
)
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.coordinators.share.partitions import SharePartitions
    from broker.coordinators.share.requests import ShareRequests
    from broker.metadata_cache import MetadataCache
    from broker.requests.advertised_endpoints import AdvertisedEndpoints
    from config import BrokerConfig

_FIRST_VERSION_WITH_TIMEOUT = 2


@handles(SHARE_ACKNOWLEDGE)
def share_acknowledge(
    ctx: RequestContext,
    request: Struct,
    *,
    metadata: MetadataCache,
    config: BrokerConfig,
    share_partitions: SharePartitions,
    share_requests: ShareRequests,
    endpoints: AdvertisedEndpoints,
) -> Reply:
    try:
        if not serves_share_groups(metadata, config):
            raise Refused(ErrorCode.UNSUPPORTED_VERSION)
        check_caller(request)
        sessions = share_partitions.sessions
        key = SessionKey(request.group_id, request.member_id)
        session = sessions.acknowledge(key, request.share_session_epoch)
    except Refused as refusal:
        return failed(refusal.code)
    acknowledged = share_requests.acknowledge(ctx, key, acknowledged_of(request), may_renew=request.is_renew_ack)
    if request.share_session_epoch == FINAL_EPOCH:
        sessions.end(session)

    def answer() -> Struct:
        response, leaders = respond(share_requests, acknowledged)
        response.node_endpoints = endpoints.structs(ctx.connection, NodeEndpoint, leaders) if leaders else []
        if ctx.api_version >= _FIRST_VERSION_WITH_TIMEOUT:
            lock_ms = share_partitions.settings(request.group_id).limits.lock_duration_ms
            response.acquisition_lock_timeout_ms = lock_ms
        return response

    return share_requests.when_written(request.group_id, acknowledged, answer, failed)


def respond(share_requests: ShareRequests, acknowledged: Acknowledging) -> tuple[Struct, set[int]]:
    """Return (the result of each partition, other leaders that it names)."""
    topics: dict[bytes, list[Struct]] = {}
    leaders: set[int] = set()
    for place, refused in acknowledged.results.items():
        data = PartitionData(partition_index=place.partition)
        if refused is not None:
            data.error_code, data.error_message = refused.code, refused.message
            if refused.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                share_requests.set_leader(place, data, leaders)
        topics.setdefault(place.topic_id, []).append(data)
    response = SHARE_ACKNOWLEDGE.response(
        responses=[
            ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in topics.items()
        ],
    )
    return response, leaders


def failed(code: ErrorCode) -> Struct:
    return SHARE_ACKNOWLEDGE.response(error_code=code)
