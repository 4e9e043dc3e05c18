"""ListGroups v0-v5: list the groups of this broker.

Versions: v4 states, and a filter by them (KIP-518); v5 types, and a filter by them (KIP-848). Filters ignore case. An
unknown name in a filter matches nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from coordinator.group.admin import list_groups as list_shard
from protocol.error_codes import ErrorCode
from protocol.messages.list_groups import LIST_GROUPS
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.coordinators.group.coordinator import GroupCoordinator


@handles(LIST_GROUPS)
def list_groups(ctx: RequestContext, request: Struct, *, groups: GroupCoordinator) -> Reply:
    shards = groups.shards()
    if isinstance(shards, ErrorCode):
        return LIST_GROUPS.response(error_code=shards)
    states = {state.strip().lower() for state in request.states_filter}
    types = {group_type.lower() for group_type in request.types_filter}
    return LIST_GROUPS.response(groups=[group for shard in shards for group in list_shard(shard, states, types)])
