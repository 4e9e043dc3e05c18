"""Requests that another node serves: the controller of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, cast

from broker.requests.context import ClientConnection, RequestContext
from broker.requests.served_api import Reply, ServedApi
from protocol.schema import Api, Chunk, ReadBuffer, Struct
from runtime.deferred import Deferred


class RequestForwarder(Protocol):
    """The way to the node that serves what this one does not."""

    def forward(self, connection: ClientConnection, frame: bytes) -> Deferred[bytes]:
        """Forward a request of a connection's client. Resolves to the frame of the answer.

        The client is throttled here as the other node decides. Fails with the errors of its dispatcher, or with
        CloseConnection if it cannot be reached: then the connection ends.
        """


class ForwardedApi(ServedApi):
    """An API whose requests are forwarded undecoded. Request and answer are frames here.

    The other node checks access, and charges the request to the client's quotas. `handler` takes the frame of a
    request, and returns that of the answer.
    """

    is_charged = False
    is_guarded = False

    def __init__(self, served: ServedApi, handler: Callable[..., Deferred[list[Chunk]]] | None = None) -> None:
        serve = cast("Callable[[RequestContext, Struct], Reply]", handler or forward)
        super().__init__(served.key, served.served, served.advertised, handler=serve)

    def decoder(self, api: Api, version: int) -> Callable[[ReadBuffer, int], tuple[Struct, int]]:
        def keep(frame: ReadBuffer, position: int) -> tuple[bytes, int]:
            return bytes(frame), len(frame)

        return cast("Callable[[ReadBuffer, int], tuple[Struct, int]]", keep)


def forward(ctx: RequestContext, frame: bytes, *, forwarder: RequestForwarder) -> Deferred[list[Chunk]]:
    """Forward a request. Fails with the error of the other node's dispatcher: then the connection is closed."""
    return forwarder.forward(ctx.connection, frame).then(lambda answer: [answer])
