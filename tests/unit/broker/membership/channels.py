"""A channel to a controller that the test answers."""

from __future__ import annotations

from broker.membership.controllers import NoController
from broker.network.outbound_errors import ConnectionFailed
from protocol.client_session import PendingRequest, Response
from protocol.schema import Api, Struct
from replication.observing import Endpoint
from runtime.deferred import Deferred

CONTROLLER = Endpoint("controller", 9093)


class MemoryChannel:
    """A ControllerChannel without a connection. `requests` has those that were sent, oldest first."""

    def __init__(self) -> None:
        self.requests: list[Struct] = []
        self.is_closed = False
        self._unanswered: list[tuple[Api, Deferred[Response]]] = []

    def request(self, endpoint: Endpoint | None, api: Api, body: Struct) -> Deferred[Response]:
        answered: Deferred[Response] = Deferred()
        if endpoint is None:
            answered.fail(NoController())
        else:
            self.requests.append(body)
            self._unanswered.append((api, answered))
        return answered

    def answer(self, **fields: object) -> None:
        """Answer the oldest request."""
        api, answered = self._unanswered.pop(0)
        answered.resolve(Response(PendingRequest(api, 0, 0), api.response(**fields), b"", 0, 0))

    def lose(self) -> None:
        """Let the oldest request fail."""
        self._unanswered.pop(0)[1].fail(ConnectionFailed("controller:9093", "lost"))

    def close(self) -> None:
        self.is_closed = True
