"""Serve in the main process the requests that workers forward."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from broker.requests.context import ClientConnection, CloseConnection
from broker.requests.dispatcher import Waiting
from broker.workers.messages import Client, Forward, Forwarded
from protocol.schema import Chunk
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from broker.requests.dispatcher import Dispatcher


class ForwardedConnection:
    """The parts that handlers may use of a connection that another process has. It lasts for one request."""

    is_closed = False
    authenticator = None
    is_admitted = True  # workers forward no request before that
    token_authenticated = False  # authentication is not supported with several workers

    def __init__(self, client: Client) -> None:
        self.listener_name = client.listener_name
        self.security_protocol = client.security_protocol
        self.client_host, self.client_port = client.client_host, client.client_port
        self.local_host, self.local_port = client.local_host, client.local_port
        self.principal = client.principal
        self.client_software_name = client.client_software_name
        self.client_software_version = client.client_software_version
        self.on_close: Callable[[], None] | None = None
        self.throttle_ms = 0

    def __repr__(self) -> str:
        return f"{self.client_host}:{self.client_port} on {self.listener_name}"

    def throttle(self, wait_ms: int) -> None:
        """Mute the connection, in the process that has it, for this long."""
        self.throttle_ms = wait_ms


def serve_forwarded(dispatcher: Dispatcher, request: Forward) -> Deferred[Forwarded]:
    """Serve a request. Fails with ProtocolError or CloseConnection if the worker must close the connection."""
    forwarded = ForwardedConnection(request.client)
    connection: ClientConnection = forwarded
    answered: Deferred[Forwarded] = Deferred()

    def take(answer: bytes | list[Chunk] | Waiting | None) -> None:
        if isinstance(answer, Waiting):
            waiting = answer
            waiting.deferred.add_done_callback(lambda _: attempt(lambda: dispatcher.finish(connection, waiting)))
        elif answer is None:
            raise CloseConnection("there is no answer")
        else:
            # Only answers to Fetch have slices of files, and Fetch is not forwarded.
            chunks = [answer] if isinstance(answer, bytes) else cast("list[bytes]", answer)
            answered.resolve(Forwarded(b"".join(chunks), forwarded.throttle_ms))

    def attempt(serve: Callable[[], bytes | list[Chunk] | Waiting | None]) -> None:
        try:
            take(serve())
        except Exception as error:
            answered.fail(error)

    attempt(lambda: dispatcher.dispatch(connection, memoryview(request.frame)))
    return answered
