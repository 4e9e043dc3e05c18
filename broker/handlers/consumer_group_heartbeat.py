"""ConsumerGroupHeartbeat v0-v1: join, stay in and leave a consumer group (KIP-848).

Versions: v1 regular expressions, and member ids that clients generate (KIP-1082).
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING
from uuid import uuid4

from broker.access.authorization.operations import describer
from broker.coordinators.group.coordinator import has_consumer_groups
from broker.network.java_address import java_address
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from coordinator.effects import Effects
from coordinator.group.consumer.heartbeat import answer_if_unchanged, new_response
from coordinator.group.consumer.heartbeat import heartbeat as decide
from coordinator.group.modern.caller import Caller
from coordinator.group.refused import Refused
from coordinator.group.shard import GroupEffects
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import CONSUMER_GROUP_HEARTBEAT
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.access.authorization.guard import Guard
    from broker.coordinators.group.coordinator import GroupCoordinator
    from broker.metadata_cache import MetadataCache


@handles(CONSUMER_GROUP_HEARTBEAT)
def consumer_group_heartbeat(
    ctx: RequestContext, request: Struct, *, groups: GroupCoordinator, metadata: MetadataCache, guard: Guard | None
) -> Reply:
    if not has_consumer_groups(groups, metadata):
        return new_response(error_code=ErrorCode.UNSUPPORTED_VERSION)
    shard = groups.at(request.group_id)
    caller = Caller(ctx.client_id or "", java_address(ctx.connection.client_host))
    if not isinstance(shard, ErrorCode):
        unchanged = answer_if_unchanged(shard, request, caller, groups.now())
        if unchanged is not None:
            groups.arm()
            return unchanged
    return groups.with_topic(lambda: serve(ctx, request, caller, groups, guard))


def serve(ctx: RequestContext, request: Struct, caller: Caller, groups: GroupCoordinator, guard: Guard | None) -> Reply:
    """Answer once the changes of the heartbeat are in the log."""
    shard = groups.at(request.group_id)
    if isinstance(shard, ErrorCode):
        return new_response(error_code=shard)
    if not request.member_id:
        caller = caller._replace(fresh_id=urlsafe_b64encode(uuid4().bytes).decode().rstrip("="))
    caller = caller._replace(may_describe=describer(guard, ctx))
    effects: GroupEffects = Effects()
    try:
        response = decide(shard, request, ctx.api_version, caller, groups.now(), effects)
    except Refused as refusal:
        return new_response(error_code=refusal.code, error_message=refusal.message)
    if not effects.writes and not effects.notes:
        groups.arm()
        return response
    code = groups.run(shard, effects)
    if code is not ErrorCode.NONE:
        return new_response(error_code=code)
    return groups.after_commit((request.group_id,), response, lambda code: new_response(error_code=code))
