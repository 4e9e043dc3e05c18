"""Decide which requests of its clients a worker serves itself, rejects, or forwards to the main process.

It serves requests to partitions, and for metadata, which it follows. It rejects requests to coordinators with
NOT_COORDINATOR, as any broker that is not the coordinator. Old versions of AddPartitionsToTxn have no field for that
code, and are forwarded. Where clients ask all brokers for a list, it answers with an empty list. It forwards all other
requests undecoded: a new API is forwarded unless it is named below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from broker.requests.dispatcher import CloseConnection, RequestContext
from broker.requests.error_reply import error_reply
from broker.requests.forwarding import RequestForwarder
from broker.requests.served_api import Reply, ServedApi
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.schema import Api, Chunk, ReadBuffer, Struct
from runtime.deferred import Deferred

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


class ForwardedApi(ServedApi):
    """An API whose requests are forwarded undecoded. Request and answer are frames here.

    The main process charges the request to the client's quotas.
    """

    is_charged = False

    def __init__(self, served: ServedApi) -> None:
        handler = cast("Callable[[RequestContext, Struct], Reply]", forward)
        super().__init__(served.key, served.served, served.advertised, handler=handler)

    def decoder(self, api: Api, version: int) -> Callable[[ReadBuffer, int], tuple[Struct, int]]:
        def keep(frame: ReadBuffer, position: int) -> tuple[bytes, int]:
            return bytes(frame), len(frame)

        return cast("Callable[[ReadBuffer, int], tuple[Struct, int]]", keep)


def forward(ctx: RequestContext, frame: bytes, *, forwarder: RequestForwarder) -> Deferred[list[Chunk]]:
    """Forward a request to the main process. Fails with its dispatcher's error: then the connection is closed."""
    return forwarder.forward(ctx.connection, frame).then(lambda answer: [answer])
