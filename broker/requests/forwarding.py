"""Requests that another process serves: a worker's main process; in a cluster, the controller."""

from __future__ import annotations

from typing import Protocol

from broker.requests.context import ClientConnection
from runtime.deferred import Deferred


class RequestForwarder(Protocol):
    """The way to the process that serves what this one does not."""

    def forward(self, connection: ClientConnection, frame: bytes) -> Deferred[bytes]:
        """Forward a request of a connection's client. Resolves to the frame of the answer.

        The client is throttled here as the other process decides. Fails with the errors of its dispatcher, or with
        CloseConnection if it cannot be reached: then the connection ends.
        """
