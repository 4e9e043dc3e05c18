"""What a worker does with the requests of clients: most go to its own handlers, the others to the owner as they came.

Served here is what partitions answer, and what the metadata does, which a worker follows. Of what belongs to
coordinators NOT_COORDINATOR is said, as by any broker that has not the partition in question (AddPartitionsToTxn has
no place for it in old versions, and goes to the owner). Lists for which clients ask all brokers are empty but for the
owner's. All else is a decision of the owner's: an API that is new here goes there, unless it is named below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

from broker.requests.dispatcher import CloseConnection, RequestContext
from broker.requests.error_reply import error_reply
from broker.requests.served_api import Reply, ServedApi
from broker.workers.messages import Client, Forward, Forwarded
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode, ProtocolError
from protocol.schema import Api, Chunk, ReadBuffer, Struct
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from broker.network.server import Server
    from broker.workers.link import Link

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
    """An API whose requests are not even decoded. A request is its frame here, and the answer one, too.

    What it takes of quotas the owner reckons.
    """

    is_charged = False

    def __init__(self, served: ServedApi) -> None:
        handler = cast("Callable[[RequestContext, Struct], Reply]", forward)
        super().__init__(served.key, served.served, served.advertised, handler=handler)

    def decoder(self, api: Api, version: int) -> Callable[[ReadBuffer, int], tuple[Struct, int]]:
        def keep(frame: ReadBuffer, position: int) -> tuple[bytes, int]:
            return bytes(frame), len(frame)

        return cast("Callable[[ReadBuffer, int], tuple[Struct, int]]", keep)


def forward(ctx: RequestContext, frame: bytes, *, link: Link, server: Server) -> Deferred[list[Chunk]]:
    """Have the owner serve a request. Fails with what its dispatcher raises: then the connection ends."""
    connection = ctx.connection
    client = Client(
        connection.listener_name,
        connection.security_protocol,
        connection.client_host,
        connection.client_port,
        connection.local_host,
        connection.local_port,
        connection.principal,
        connection.client_software_name,
        connection.client_software_version,
    )
    answered: Deferred[list[Chunk]] = Deferred()

    def count(sign: int) -> None:
        """It takes memory, and the owner's time, until it is answered, also where the client has hung up meanwhile."""
        server.held(sign * len(frame))
        server.queued(sign)

    def pass_on(done: Deferred[Forwarded]) -> None:
        count(-1)
        try:
            answer = done.result()
            if answer.throttle_ms:
                connection.throttle(answer.throttle_ms)
            answered.resolve([answer.frame])
        except (CloseConnection, ProtocolError) as error:
            answered.fail(error)
        except Exception as error:  # the owner answers errors of its handlers itself
            answered.fail(CloseConnection(f"{ctx.api.name} could not be forwarded: {error!r}"))

    count(1)
    link.ask(Forward(client, frame)).add_done_callback(pass_on)
    return answered
