"""Requests that a worker's clients have sent to it, and that the owner serves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from broker.cores.messages import Client, Forward
from broker.deferred import Deferred
from broker.dispatch import CloseConnection, Waiting
from protocol.schema import Chunk

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.network.connection import Connection


class ForwardedConnection:
    """What handlers may look at of a connection that another process has. It lasts for one request."""

    is_closed = False

    def __init__(self, client: Client) -> None:
        self.listener_name = client.listener_name
        self.security_protocol = client.security_protocol
        self.client_host, self.client_port = client.client_host, client.client_port
        self.local_host, self.local_port = client.local_host, client.local_port
        self.principal = client.principal
        self.client_software_name = client.client_software_name
        self.client_software_version = client.client_software_version
        self.on_close: Callable[[], None] | None = None

    def __repr__(self) -> str:
        return f"{self.client_host}:{self.client_port} on {self.listener_name}"


def serve_forwarded(broker: Broker, request: Forward) -> Deferred[bytes]:
    """The frame of the answer. Fails with ProtocolError and CloseConnection, at which the connection is to end."""
    connection = cast("Connection", ForwardedConnection(request.client))
    dispatcher = broker.dispatcher
    answered: Deferred[bytes] = Deferred()

    def take(answer: bytes | list[Chunk] | Waiting | None) -> None:
        if isinstance(answer, Waiting):
            waiting = answer
            waiting.deferred.add_done_callback(lambda _: attempt(lambda: dispatcher.finish(connection, waiting)))
        elif answer is None:
            raise CloseConnection("there is no answer")
        else:
            # Slices of files are in answers to Fetch alone, which is not forwarded.
            chunks = [answer] if isinstance(answer, bytes) else cast("list[bytes]", answer)
            answered.resolve(b"".join(chunks))

    def attempt(serve: Callable[[], bytes | list[Chunk] | Waiting | None]) -> None:
        try:
            take(serve())
        except Exception as error:
            answered.fail(error)

    attempt(lambda: dispatcher.dispatch(connection, memoryview(request.frame)))
    return answered
