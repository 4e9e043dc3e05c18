"""The broker's client of another broker: requests in, responses by Deferred, as Apache Kafka's NetworkClient.

It connects when there is a request, chooses API versions, logs in, and sends requests without waiting for the responses
of earlier ones. A request that has no response in time closes the connection, because responses arrive in order. When
a connection ends, its requests fail; whether one may be repeated is up to the caller. The next request connects again,
after a back-off that grows with each failure.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
from collections import deque
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from broker.network.outbound_connection import OutboundConnection
from broker.network.outbound_errors import ClientClosed, ConnectionFailed, RequestTimedOut
from broker.network.outbound_options import OutboundOptions
from broker.network.outbound_security import OutboundSecurity
from protocol.client_session import ClientSession, PendingRequest, Response, SupportedVersions
from protocol.error_codes import EncodeError, ProtocolError
from protocol.messages.api_versions import API_VERSIONS
from protocol.schema import Api, Struct
from runtime.deferred import Deferred
from runtime.timers import Timer, Timers

if TYPE_CHECKING:
    from broker.network.shared_memory import SharedMemory

log = logging.getLogger(__name__)

#: ApiVersions v0: every broker has it.
_API_VERSIONS = 0
_JITTER = 0.2
#: The login is renewed after this share of the session's lifetime. Kafka's clients choose one from 0.85 to 0.95.
_SESSION_SHARE = 0.85
_MOST_DOUBLINGS = 20
_CLOSED_BY_PEER = "the other side closed the connection"

OpenConnection = Callable[..., Awaitable[object]]
"""Opens a transport, with the parameters of `asyncio.AbstractEventLoop.create_connection`."""


class _State(Enum):
    IDLE = auto()
    CONNECTING = auto()  # TCP and TLS
    SETTING_UP = auto()  # ApiVersions and SASL
    READY = auto()
    CLOSED = auto()


class _Call:
    """A request, from `request` to its response."""

    __slots__ = ("api", "at_most", "deferred", "is_raw", "request", "timer")

    def __init__(self, api: Api, request: Struct, at_most: int | None, is_raw: bool) -> None:
        self.api = api
        self.request = request
        self.at_most = at_most
        self.is_raw = is_raw
        self.deferred: Deferred[Any] = Deferred()
        self.timer: Timer | None = None

    def end(self) -> None:
        """Stop the timer. The response is not needed any more, or is there."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def fail(self, error: Exception) -> None:
        self.end()
        if not self.deferred.done:
            self.deferred.fail(error)


class OutboundClient:
    """A client of the broker at one address. All methods belong to the event loop's thread.

    Args:
        memory: shared by clients of one loop. Records in a response are valid until its callbacks return.
        open_connection: the loop's own function by default.
        jitter: returns random numbers from 0 to 1, by which back-offs and setup timeouts differ.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        timers: Timers,
        host: str,
        port: int,
        options: OutboundOptions,
        security: OutboundSecurity | None = None,
        *,
        memory: SharedMemory | None = None,
        open_connection: OpenConnection | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._loop = loop
        self._timers = timers
        self._host, self._port = host, port
        self._options = options
        self._security = security or OutboundSecurity()
        self._memory = memory
        self._open_connection = open_connection
        self._jitter = jitter
        self._state = _State.IDLE
        self._failures = 0
        self._backoff: Timer | None = None
        self._setup_timer: Timer | None = None
        self._session_timer: Timer | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._connection: OutboundConnection | None = None
        self._session = ClientSession(options.client_id)
        self._versions: SupportedVersions | None = None
        self._waiting: deque[_Call] = deque()
        self._in_flight: deque[_Call] = deque()

    @property
    def is_ready(self) -> bool:
        """Return whether a request would be sent at once."""
        return self._state is _State.READY

    def request(self, api: Api, request: Struct, *, at_most: int | None = None) -> Deferred[Response]:
        """Send a request in the newest version that both sides have, and that is `at_most` this.

        Records in the response are views of memory that is not used again, unless it is shared. Fails with
        OutboundError, UnsupportedVersion or EncodeError. After a cancel the response is dropped.
        """
        return self._call(_Call(api, request, at_most, is_raw=False))

    def request_raw(self, api: Api, request: Struct, *, at_most: int | None = None) -> Deferred[memoryview]:
        """As `request`; resolves to the frame of the response, without its size, not decoded."""
        return self._call(_Call(api, request, at_most, is_raw=True))

    def close(self) -> None:
        """Close the connection. Requests without a response fail with ClientClosed, and so do later ones."""
        if self._state is _State.CLOSED:
            return
        if self._backoff is not None:
            self._backoff.cancel()
        self._disconnect(_State.CLOSED)
        self._fail_all(ClientClosed(self.address))

    # -- requests ------------------------------------------------------------------------------------------------------

    def _call(self, call: _Call) -> Deferred[Any]:
        if self._state is _State.CLOSED:
            call.fail(ClientClosed(self.address))
            return call.deferred
        call.timer = self._timers.call_later(self._options.request_timeout_ms, lambda: self._on_timeout(call))
        call.deferred.on_cancel(call.end)
        self._waiting.append(call)
        if self._state is _State.READY:
            self._send_waiting()
        elif self._state is _State.IDLE and self._backoff is None:
            self._connect()
        return call.deferred

    def _send_waiting(self) -> None:
        assert self._versions is not None
        while self._waiting and self._connection is not None and self._connection.is_writable:
            call = self._waiting.popleft()
            if call.deferred.done:
                continue
            try:
                version = self._versions.newest(call.api, call.at_most)
                self._send(call, version)
            except (ProtocolError, EncodeError) as error:
                call.fail(error)

    def _send(self, call: _Call, version: int) -> None:
        pending, data = self._session.encode(call.api, version, call.request)
        assert self._connection is not None
        self._session.expect(pending)
        self._in_flight.append(call)
        self._connection.send(data)

    def _on_timeout(self, call: _Call) -> None:
        call.timer = None
        error = RequestTimedOut(self.address, call.api.name, self._options.request_timeout_ms)
        if call in self._in_flight:
            self._lose(error)
        elif not call.deferred.done:
            call.deferred.fail(error)

    # -- connecting ----------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        self._backoff = None
        self._state = _State.CONNECTING
        self._limit_setup()
        self._connecting = self._loop.create_task(self._establish())

    def _limit_setup(self) -> None:
        options = self._options
        timeout_ms = min(options.connection_setup_timeout_ms << self._failures, options.connection_setup_timeout_max_ms)
        self._setup_timer = self._timers.call_later(self._with_jitter(timeout_ms), self._on_setup_timeout)

    async def _establish(self) -> None:
        """Open the transport. Everything after that happens in callbacks."""
        connection = OutboundConnection(
            self._options.max_frame_bytes,
            lambda frame: self._on_frame(connection, frame),
            lambda error: self._on_lost(connection, error),
            self._send_waiting,
            self._options.receive_buffer_bytes,
            self._memory,
        )
        tls = self._security.tls
        open_connection = self._open_connection or self._loop.create_connection
        try:
            await open_connection(
                lambda: connection, self._host, self._port, ssl=tls, server_hostname=self._host if tls else None
            )
        except (OSError, ValueError) as error:  # ValueError: a name that is none
            self._connecting = None
            self._lose(ConnectionFailed(self.address, _reason(error)))
            return
        except asyncio.CancelledError:
            connection.close()
            raise
        self._connecting = None
        if connection.is_closed:
            self._lose(ConnectionFailed(self.address, _CLOSED_BY_PEER))
            return
        self._connection = connection
        self._state = _State.SETTING_UP
        self._set_up()

    def _set_up(self) -> None:
        """Ask for the versions; then log in, if the listener requires it."""
        self._session = ClientSession(self._options.client_id)
        call = _Call(API_VERSIONS, API_VERSIONS.request(), None, is_raw=False)
        call.deferred.add_done_callback(self._on_versions)
        self._send(call, _API_VERSIONS)

    def _on_versions(self, answered: Deferred[Response]) -> None:
        try:
            self._versions = SupportedVersions.from_response(answered.result().fields)
        except ProtocolError as error:
            self._lose(ConnectionFailed(self.address, str(error)))
        except Exception:
            return  # the connection is lost already
        else:
            self._log_in()

    def _log_in(self) -> None:
        if self._security.mechanism is None:
            self._on_ready(0)
        else:
            from broker.network.outbound_login import Login  # loaded only with SASL

            Login(self._security, self._send_step, self._on_ready, self._lose, self.address).begin()

    def _log_in_again(self) -> None:
        """Renew the login before the session expires. Other requests wait, as the broker accepts none meanwhile."""
        self._session_timer = None
        if self._state is _State.READY:
            self._state = _State.SETTING_UP
            self._limit_setup()
            self._log_in()

    def _send_step(self, api: Api, at_most: int, request: Struct) -> Deferred[Response]:
        """Send a request of the login."""
        call = _Call(api, request, at_most, is_raw=False)
        assert self._versions is not None
        try:
            self._send(call, self._versions.newest(api, at_most))
        except (ProtocolError, EncodeError) as error:
            call.fail(error)
        return call.deferred

    def _on_ready(self, session_lifetime_ms: int) -> None:
        assert self._setup_timer is not None
        self._setup_timer.cancel()
        self._setup_timer = None
        if session_lifetime_ms:
            due_ms = round(session_lifetime_ms * _SESSION_SHARE)
            self._session_timer = self._timers.call_later(due_ms, self._log_in_again)
        self._failures = 0
        self._state = _State.READY
        self._send_waiting()

    def _on_setup_timeout(self) -> None:
        self._setup_timer = None
        self._lose(ConnectionFailed(self.address, "the connection was not established in time"))

    # -- receiving -----------------------------------------------------------------------------------------------------

    def _on_frame(self, connection: OutboundConnection, body: memoryview) -> None:
        if connection is not self._connection:
            return
        call = self._in_flight.popleft() if self._in_flight else None
        try:
            pending, start = self._session.match(body)
            assert call is not None
            response = self._decoded(call, pending, body, start)
        except ProtocolError as error:
            failed = ConnectionFailed(self.address, str(error))
            if call is not None:
                call.fail(failed)
            self._lose(failed)
            return
        call.end()
        if not call.deferred.done:
            call.deferred.resolve(response)

    @staticmethod
    def _decoded(call: _Call, pending: PendingRequest, body: memoryview, start: int) -> Response | memoryview | None:
        if call.deferred.done:
            return None
        if call.is_raw:
            return body
        fields, end = pending.api.response.decode(pending.version, body, start)
        return Response(pending, fields, body, start, end)

    # -- losing the connection -----------------------------------------------------------------------------------------

    def _on_lost(self, connection: OutboundConnection, error: Exception | None) -> None:
        if connection is self._connection:
            reason = _CLOSED_BY_PEER if error is None else _reason(error)
            self._lose(ConnectionFailed(self.address, reason))

    def _lose(self, error: Exception) -> None:
        """End the connection. Its requests fail, and those that wait for it."""
        if self._state in (_State.IDLE, _State.CLOSED):
            return
        was_ready = self._state is _State.READY
        self._disconnect(_State.IDLE)
        options = self._options
        backoff_ms = min(options.reconnect_backoff_ms << self._failures, options.reconnect_backoff_max_ms)
        self._failures = 0 if was_ready else min(self._failures + 1, _MOST_DOUBLINGS)
        self._backoff = self._timers.call_later(self._with_jitter(backoff_ms), self._on_backoff)
        log.debug("Connection to %s is lost: %s", self.address, error)
        self._fail_all(error)

    def _on_backoff(self) -> None:
        self._backoff = None
        if self._waiting and self._state is _State.IDLE:
            self._connect()

    def _disconnect(self, state: _State) -> None:
        self._state = state
        self._versions = None
        for timer in (self._setup_timer, self._session_timer):
            if timer is not None:
                timer.cancel()
        self._setup_timer = self._session_timer = None
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _fail_all(self, error: Exception) -> None:
        """Fail all requests. Their callbacks may send others, which wait for the next connection."""
        calls = (*self._in_flight, *self._waiting)
        self._in_flight.clear()
        self._waiting.clear()
        for call in calls:
            call.fail(error)

    def _with_jitter(self, milliseconds: int) -> int:
        return round(milliseconds * (1 - _JITTER + 2 * _JITTER * self._jitter()))


def _reason(error: Exception) -> str:
    """Return the text of an error. That of asyncio for a refused connection lacks the reason.

    A reset during the TLS handshake has no text at all.
    """
    if isinstance(error, ConnectionError):
        return os.strerror(error.errno) if error.errno else str(error) or _CLOSED_BY_PEER
    if isinstance(error, socket.gaierror):
        return f"the host name is not resolved: {error.strerror}"
    return str(error)
