"""Serves in the main process what clients have sent to a worker."""

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
    """What handlers may look at of a connection that another process has. It lasts for one request."""

    is_closed = False
    authenticator = None
    is_admitted = True  # before that nothing is forwarded
    token_authenticated = False  # nobody is asked who they are where there are workers

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
        """The process that has the connection is to start no more requests of it for so long."""
        self.throttle_ms = wait_ms


def serve_forwarded(dispatcher: Dispatcher, request: Forward) -> Deferred[Forwarded]:
    """The answer. Fails with ProtocolError and CloseConnection, at which the connection is to end."""
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
            # Slices of files are in answers to Fetch alone, which is not forwarded.
            chunks = [answer] if isinstance(answer, bytes) else cast("list[bytes]", answer)
            answered.resolve(Forwarded(b"".join(chunks), forwarded.throttle_ms))

    def attempt(serve: Callable[[], bytes | list[Chunk] | Waiting | None]) -> None:
        try:
            take(serve())
        except Exception as error:
            answered.fail(error)

    attempt(lambda: dispatcher.dispatch(connection, memoryview(request.frame)))
    return answered
