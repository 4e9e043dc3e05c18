"""Decide which requests of its clients a worker serves itself, rejects, or forwards to the main process.

It serves requests to partitions, and for metadata, which it follows. It rejects requests to coordinators with
NOT_COORDINATOR, as any broker that is not the coordinator. Old versions of AddPartitionsToTxn have no field for that
code, and are forwarded. Where clients ask all brokers for a list, it answers with an empty list. It forwards all other
requests undecoded: a new API is forwarded unless it is named below.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.requests.dispatcher import CloseConnection, RequestContext
from broker.requests.error_reply import error_reply
from broker.requests.forwarding import ForwardedApi
from broker.requests.served_api import Reply, ServedApi
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.schema import Struct

SERVED_HERE = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,
        ApiKey.FIND_COORDINATOR,
        ApiKey.API_VERSIONS,
        ApiKey.DELETE_RECORDS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.SHARE_FETCH,
        ApiKey.SHARE_ACKNOWLEDGE,
    }
)
OF_COORDINATORS = frozenset(
    {
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.JOIN_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.DELETE_GROUPS,
        ApiKey.OFFSET_DELETE,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        ApiKey.STREAMS_GROUP_DESCRIBE,
        ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_DESCRIBE,
    }
)
LISTS_OF_ALL_BROKERS = frozenset({ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS})


def apis_of_a_worker(served: Mapping[int, ServedApi]) -> dict[int, ServedApi]:
    """Return the same APIs and versions as the main process serves, as a worker serves them."""
    return {key: _as_served_here(key, each) for key, each in served.items()}


def _as_served_here(key: int, served: ServedApi) -> ServedApi:
    if key in SERVED_HERE:
        return served
    if key in OF_COORDINATORS:
        return served.with_handler(_not_coordinator)
    if key in LISTS_OF_ALL_BROKERS:
        return served.with_handler(_nothing)
    return ForwardedApi(served)


def _not_coordinator(ctx: RequestContext, request: Struct) -> Reply:
    reply = error_reply(ctx.api, ctx.api_version, request, ErrorCode.NOT_COORDINATOR)
    if reply is None:
        raise CloseConnection(f"{ctx.api.name}: another process is the coordinator")
    return reply


def _nothing(ctx: RequestContext, request: Struct) -> Reply:
    return ctx.api.response()
