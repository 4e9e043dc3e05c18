"""JoinGroup v0-v9: join a classic group, or its next generation.

Versions: v1 rebalance timeout (KIP-62); v4 members get their id first (KIP-394); v5 group instance ids (KIP-345); v7
protocol type and null protocol names; v8 reasons (KIP-800); v9 skipped assignments (KIP-814). The answer waits until
the generation begins.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from broker.access.authorization.operations import describer
from broker.coordinators.group.parked import ParkedJoin
from broker.network.java_address import java_address
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from coordinator.effects import Effects
from coordinator.group.classic.join import join_group
from coordinator.group.classic.join_request import check_join, join_error, read_join
from coordinator.group.shard import GroupEffects
from protocol.error_codes import ErrorCode
from protocol.messages.join_group import JOIN_GROUP
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.access.authorization.guard import Guard
    from broker.coordinators.group.coordinator import GroupCoordinator


@handles(JOIN_GROUP)
def join(ctx: RequestContext, request: Struct, *, groups: GroupCoordinator, guard: Guard | None) -> Reply:
    parked = ParkedJoin(ctx.api_version)
    client_host = java_address(ctx.connection.client_host)
    wanted = read_join(request, parked, ctx.client_id, client_host, str(uuid.uuid4()), describer(guard, ctx))
    code = check_join(groups.settings, wanted)
    if code is not ErrorCode.NONE:
        parked.answer(join_error(code, wanted.member_id))
        return parked.deferred

    def decide() -> Reply:
        shard = groups.at(wanted.group_id)
        if isinstance(shard, ErrorCode):
            parked.answer(join_error(shard, ""))
        else:
            effects: GroupEffects = Effects()
            join_group(shard, wanted, groups.now(), effects)
            groups.run(shard, effects)
        return parked.deferred

    return groups.with_topic(decide)
