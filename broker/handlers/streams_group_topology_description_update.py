"""StreamsGroupTopologyDescriptionUpdate v0: store the description of a streams group's topology (KIP-1331).

`group.streams.topology.description.plugin.class` turns it on. Descriptions are kept in memory, whatever its class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from coordinator.effects import Effects
from coordinator.group.refused import Refused
from coordinator.group.shard import GroupEffects
from coordinator.group.streams.descriptions import check_ids, update_description
from protocol.error_codes import ErrorCode
from protocol.messages.streams_group_topology_description_update import STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.coordinators.group.coordinator import GroupCoordinator

NO_PLUGIN = "The broker has no streams group topology description plugin configured."


@handles(STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE)
def streams_group_topology_description_update(
    ctx: RequestContext, request: Struct, *, groups: GroupCoordinator
) -> Reply:
    if not groups.settings.streams.describes_topologies:
        return answer(ErrorCode.UNSUPPORTED_VERSION, NO_PLUGIN)
    try:
        check_ids(request)
    except Refused as refusal:
        return answer(refusal.code, refusal.message)
    shard = groups.at(request.group_id)
    if isinstance(shard, ErrorCode):
        return answer(shard)
    effects: GroupEffects = Effects()
    try:
        update_description(shard, request, effects)
    except Refused as refusal:
        return answer(refusal.code, refusal.message)
    code = groups.run(shard, effects)
    if code is not ErrorCode.NONE:
        return answer(code)
    return groups.after_commit((request.group_id,), answer(ErrorCode.NONE), answer)


def answer(code: ErrorCode, message: str | None = None) -> Struct:
    return STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE.response(error_code=code, error_message=message)
