"""ShareGroupHeartbeat v1: join, stay in and leave a share group (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinators.share.requests import serves_share_groups
from broker.network.java_address import java_address
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from coordinator.effects import Effects
from coordinator.group.modern.caller import Caller
from coordinator.group.refused import Refused
from coordinator.group.shard import GroupEffects
from coordinator.group.share.checks import check_request
from coordinator.group.share.heartbeat import heartbeat as decide
from coordinator.group.share.heartbeat import new_response
from protocol.error_codes import ErrorCode
from protocol.messages.share_group_heartbeat import SHARE_GROUP_HEARTBEAT
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.coordinators.group.coordinator import GroupCoordinator
    from broker.metadata_cache import MetadataCache
    from config import BrokerConfig


@handles(SHARE_GROUP_HEARTBEAT)
def share_group_heartbeat(
    ctx: RequestContext, request: Struct, *, metadata: MetadataCache, config: BrokerConfig, groups: GroupCoordinator
) -> Reply:
    if not serves_share_groups(metadata, config):
        return new_response(error_code=ErrorCode.UNSUPPORTED_VERSION)

    def serve() -> Reply:
        effects: GroupEffects = Effects()
        try:
            check_request(request)
            shard = groups.at(request.group_id)
            if isinstance(shard, ErrorCode):
                return new_response(error_code=shard)
            caller = Caller(ctx.client_id or "", java_address(ctx.connection.client_host))
            response = decide(shard, request, caller, groups.now(), effects)
        except Refused as refusal:
            return new_response(error_code=refusal.code, error_message=refusal.message)
        code = groups.run(shard, effects)
        if code is not ErrorCode.NONE:
            return new_response(error_code=code)
        return groups.after_commit((request.group_id,), response, lambda code: new_response(error_code=code))

    return groups.with_topic(serve)
