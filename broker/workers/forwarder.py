"""Forward requests of a worker's clients to the main process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.requests.context import ClientConnection, CloseConnection
from broker.workers.messages import Client, Forward, Forwarded
from protocol.error_codes import ProtocolError
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from broker.workers.link import Link


class LinkForwarder:
    """A RequestForwarder over the link.

    Args:
        held, queued: count the bytes and requests that are being forwarded (broker/network/server.py).
    """

    def __init__(self, link: Link, held: Callable[[int], None], queued: Callable[[int], None]) -> None:
        self._link = link
        self._held = held
        self._queued = queued

    def forward(self, connection: ClientConnection, frame: bytes) -> Deferred[bytes]:
        """Forward a request to the main process, as `RequestForwarder.forward`."""
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
        answered: Deferred[bytes] = Deferred()

        def pass_on(done: Deferred[Forwarded]) -> None:
            self._count(-1, frame)
            try:
                answer = done.result()
                if answer.throttle_ms:
                    connection.throttle(answer.throttle_ms)
                answered.resolve(answer.frame)
            except (CloseConnection, ProtocolError) as error:
                answered.fail(error)
            except Exception as error:  # the main process answers handlers' errors itself
                answered.fail(CloseConnection(f"a request could not be forwarded: {error!r}"))

        self._count(1, frame)
        self._link.ask(Forward(client, frame)).add_done_callback(pass_on)
        return answered

    def _count(self, sign: int, frame: bytes) -> None:
        """Count a request until it is answered, even if its client disconnects: it still takes memory and time."""
        self._held(sign * len(frame))
        self._queued(sign)
