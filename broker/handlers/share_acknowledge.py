"""ShareAcknowledge v1-v2: acknowledge records without fetching others (KIP-932).

Versions: v2 locks that last longer (KIP-1222).
"""

from __future__ import annotations

from broker.coordinators.share.requests import (
    Acknowledging,
    acknowledge,
    check_caller,
    is_served,
    settings_of,
    tell_leader,
    when_written,
)
from broker.coordinators.share.sessions import FINAL_EPOCH, SessionKey
from broker.handlers.share_fetch import acknowledged_of
from broker.requests.advertised_endpoints import endpoints_of
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from coordinator.group.refused import Refused
from protocol.errors import ErrorCode
from protocol.messages.share_acknowledge import (
    SHARE_ACKNOWLEDGE,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeTopicResponse,
)
from protocol.schema import Struct

_FIRST_VERSION_WITH_TIMEOUT = 2


@handles(SHARE_ACKNOWLEDGE)
def share_acknowledge(ctx: RequestContext, request: Struct) -> Reply:
    try:
        if not is_served(ctx):
            raise Refused(ErrorCode.UNSUPPORTED_VERSION)
        check_caller(request)
        sessions = ctx.broker.share_partitions.sessions
        key = SessionKey(request.group_id, request.member_id)
        session = sessions.acknowledge(key, request.share_session_epoch)
    except Refused as refusal:
        return failed(refusal.code)
    acknowledged = acknowledge(ctx, key, acknowledged_of(request), may_renew=request.is_renew_ack)
    if request.share_session_epoch == FINAL_EPOCH:
        sessions.end(session)
    return when_written(ctx, request.group_id, acknowledged, lambda: respond(ctx, request, acknowledged), failed)


def respond(ctx: RequestContext, request: Struct, acknowledged: Acknowledging) -> Struct:
    """What became of acknowledgements, by partition."""
    topics: dict[bytes, list[Struct]] = {}
    leaders: set[int] = set()
    for place, refused in acknowledged.results.items():
        data = PartitionData(partition_index=place.partition)
        if refused is not None:
            data.error_code, data.error_message = refused.code, refused.message
            if refused.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                tell_leader(ctx, place, data, leaders)
        topics.setdefault(place.topic_id, []).append(data)
    response = SHARE_ACKNOWLEDGE.response(
        responses=[
            ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in topics.items()
        ],
        node_endpoints=endpoints_of(ctx, NodeEndpoint, leaders) if leaders else [],
    )
    if ctx.api_version >= _FIRST_VERSION_WITH_TIMEOUT:
        response.acquisition_lock_timeout_ms = settings_of(ctx, request.group_id).limits.lock_duration_ms
    return response


def failed(code: ErrorCode) -> Struct:
    return SHARE_ACKNOWLEDGE.response(error_code=code)
