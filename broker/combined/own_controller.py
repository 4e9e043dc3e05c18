"""Requests of a broker to the controller in its own process: calls, without connection, encoding or credentials."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from broker.network.outbound_errors import ClientClosed, OutboundError
from broker.requests.api_version_handler import ApiVersionHandler
from broker.requests.context import RequestContext
from broker.requests.dispatcher import Dispatcher
from protocol.client_session import PendingRequest, Response
from protocol.schema import Api, Struct
from replication.observing import Endpoint
from runtime.deferred import Deferred

_NAME = "this node's controller"


class OwnConnection:
    """The parts of a connection that handlers may use, for requests of the broker in this process."""

    is_closed = False
    is_forwarded = False
    authenticator = None
    is_admitted = True
    token_authenticated = False
    client_software_name = client_software_version = ""

    def __init__(self, listener_name: str, security_protocol: str) -> None:
        self.listener_name, self.security_protocol = listener_name, security_protocol
        self.client_host = self.local_host = "127.0.0.1"
        self.client_port = self.local_port = 0
        self.principal = "User:ANONYMOUS"
        self.on_close: Callable[[], None] | None = None

    def __repr__(self) -> str:
        return "the broker of this node"

    def throttle(self, wait_ms: int) -> None:
        """Do nothing: the broker's own requests have no quota."""


class OwnControllerChannel:
    """A ControllerChannel to the controller in this process.

    Each request is served in a later turn of the loop, with all rights: an authorizer must not separate a node from its
    own controller. Requests that are forwarded for clients have the clients' rights
    (broker/controlling/enveloped_requests.py).

    Args:
        dispatcher: that of the controller listeners, with its services.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        connection: OwnConnection,
        client_id: str,
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self._served = dispatcher.served
        self._services: Mapping[str, object] = {**dispatcher.services, "guard": None}
        self._connection = connection
        self._client_id = client_id
        self._call_soon = call_soon
        self._handlers: dict[int, ApiVersionHandler] = {}
        self._pending: set[Deferred[Response]] = set()

    def request(self, endpoint: Endpoint | None, api: Api, body: Struct) -> Deferred[Response]:
        """Serve a request, in the newest version of its API. Fails with OutboundError."""
        answered: Deferred[Response] = Deferred()
        self._pending.add(answered)
        answered.add_done_callback(self._pending.discard)
        self._call_soon(lambda: self._serve(api, body, answered))
        return answered

    def close(self) -> None:
        """Fail the requests that wait."""
        for each in list(self._pending):
            each.fail(ClientClosed(_NAME))

    def _serve(self, api: Api, body: Struct, answered: Deferred[Response]) -> None:
        if answered.done:
            return
        handler = self._handlers.get(api.key)
        if handler is None:
            served = self._served[api.key]
            handler = self._handlers[api.key] = ApiVersionHandler(served, served.served.max, self._services)
        version = handler.version

        def settle(reply: Callable[[], Struct | None]) -> None:
            if answered.done:
                return
            try:
                fields = reply()
            except Exception as error:  # the caller retries, as after any error of a controller
                answered.fail(OutboundError(_NAME, f"{api.name} failed: {error!r}"))
                return
            assert fields is not None  # all of these APIs have a response
            answered.resolve(Response(PendingRequest(api, version, 0), fields, b"", 0, 0))

        context = RequestContext(self._connection, api, version, 0, self._client_id)
        try:
            reply = handler.handler(context, body)
        except Exception as error:
            answered.fail(OutboundError(_NAME, f"{api.name} failed: {error!r}"))
            return
        if isinstance(reply, Deferred):

            def settle_soon(done: Deferred[Struct]) -> None:
                self._call_soon(lambda: settle(done.result))

            answered.on_cancel(reply.cancel)
            reply.add_done_callback(settle_soon)
        else:
            settle(lambda: reply)
