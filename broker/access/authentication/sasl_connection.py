"""Serves a connection in place of the dispatcher until its client is authenticated by SASL.

    ApiVersions  SaslHandshake v0  (token)*             tokens are frames of their own
    ApiVersions  SaslHandshake v1  (SaslAuthenticate)*  KIP-152

ApiVersions is optional, and is repeated if it was refused. Any other request closes the connection; after SaslHandshake
v1 it is answered with ILLEGAL_SASL_STATE first. Failures are answered after connection.failed.authentication.delay.ms,
and no request is read until then. A session ends after connections.max.reauth.ms, or when its credential expires. Then
the client re-authenticates with a SaslHandshake, on the same connection and as the same user (KIP-368); any other
request closes the connection.

This module drives the exchange. The mechanisms verify passwords and tokens: plain, scram and oauthbearer in
security/sasl/.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from broker.requests.dispatcher import CloseConnection, Dispatcher, Waiting
from broker.requests.error_reply import error_reply
from protocol.error_codes import ErrorCode, ProtocolError
from protocol.framing import encode_response, frame
from protocol.headers import RequestHeader, decode_request_header
from protocol.messages.api_versions import API_VERSIONS
from protocol.messages.sasl_authenticate import SASL_AUTHENTICATE
from protocol.messages.sasl_handshake import SASL_HANDSHAKE
from protocol.registry import API_BY_KEY
from protocol.schema import Api, Chunk, Struct
from runtime.deferred import Deferred
from runtime.log_text import log_text
from security.sasl.exchange_protocol import Exchange, InvalidCredentials, Refused

if TYPE_CHECKING:
    from broker.access.authentication.login_pace import LoginPace
    from broker.access.authentication.sasl_listener import SaslListener
    from broker.network.connection import Connection
    from runtime.clock import Clock
    from runtime.timers import Timer, Timers

    Answer = bytes | list[Chunk] | Waiting | None

log = logging.getLogger(__name__)

#: Larger requests during SASL are not decoded: an answer with many elements takes long, for an unknown client.
_MOST_REFUSED_BYTES = 1024
#: A client that re-authenticates sooner than this is refused, as in Kafka.
_REAUTHENTICATION_INTERVAL_MS = 1_000


class SaslAuthenticator:
    """The SASL exchanges of one connection, during its whole life."""

    __slots__ = (
        "_clock",
        "_connection",
        "_dispatcher",
        "_exchange",
        "_failed",
        "_knows_versions",
        "_listener",
        "_mechanism",
        "_pace",
        "_previous",
        "_raw_tokens",
        "_reauthentication_ms",
        "_session_end",
        "_session_lifetime_ms",
        "_timers",
        "_unfit",
        "admitted",
    )

    def __init__(
        self,
        connection: Connection,
        listener: SaslListener,
        dispatcher: Dispatcher,
        timers: Timers,
        clock: Clock,
        pace: LoginPace,
    ) -> None:
        self._connection = connection
        self._listener = listener
        self._dispatcher = dispatcher
        self._timers = timers
        self._clock = clock
        self._pace = pace
        self._mechanism = ""
        self._exchange: Exchange | None = None  # from the handshake to its end
        self._raw_tokens = False
        self._failed = False
        self._knows_versions = False  # whether ApiVersions was answered without an error
        self._previous: tuple[str, str] | None = None  # mechanism and principal, during a re-authentication
        self._unfit: str | None = None  # why the re-authentication is refused
        self._reauthentication_ms: int | None = None
        self._session_end: Timer | None = None
        self._session_lifetime_ms = 0
        self.admitted = False  # whether the client is authenticated
        connection.authenticator = self
        connection.redirect(self.dispatch, listener.max_token_bytes)

    def close(self) -> None:
        """Cancel the timer of the session's end; called when the connection is closed."""
        if self._session_end is not None:
            self._session_end.cancel()
            self._session_end = None

    # -- in place of Dispatcher.dispatch -------------------------------------------------------------------------------

    def dispatch(self, connection: Connection, request: memoryview) -> Answer:
        """Serve one frame of a client that is not authenticated, now or in a later turn.

        Raises as `Dispatcher.dispatch` does.
        """
        held_bytes = 0
        if not self._pace.has_time:
            held_bytes = len(request)
            if not self._pace.has_room(held_bytes):
                raise CloseConnection("too much waits for its turn to log in")
            request = memoryview(bytes(request))
        answer: Any = self._pace(partial(self._serve, connection, request), held_bytes)
        # as with a fast path, the value is a frame, which needs no encoder
        return Waiting(None, 0, b"", answer) if isinstance(answer, Deferred) else answer

    def _serve(self, connection: Connection, request: memoryview) -> Answer:
        if self._failed:
            return None
        if self._exchange is not None and self._raw_tokens:
            return self._take_raw(self._exchange, bytes(request))
        header = decode_request_header(request)
        if self._exchange is not None:
            if header.api_key != SASL_AUTHENTICATE.key:
                self._refuse_state(header, request)
                return None
            token = _decode(SASL_AUTHENTICATE, header, request).auth_bytes
            return self._take(self._exchange, header, bytes(token))
        if header.api_key == API_VERSIONS.key:
            if self._knows_versions:
                raise CloseConnection("ApiVersions comes again before the SASL handshake")
            versions = self._dispatcher.dispatch(connection, request)
            self._knows_versions = not _has_error(versions)
            return versions
        if header.api_key != SASL_HANDSHAKE.key:
            raise CloseConnection(f"a request of API key {header.api_key} before the SASL handshake")
        reply = self._shake_hands(header.api_version, _decode(SASL_HANDSHAKE, header, request).mechanism)
        answer = encode_response(SASL_HANDSHAKE, header.api_version, header.correlation_id, reply)
        if reply.error_code:
            self._fail(answer, f"Unsupported SASL mechanism {self._mechanism}")
            return None
        return answer

    def dispatch_expired(self, connection: Connection, request: memoryview) -> Answer:
        """Serve the first frame after the session's end, which must be the SaslHandshake of the next one."""
        if decode_request_header(request).api_key != SASL_HANDSHAKE.key:
            raise CloseConnection("its SASL session has ended")
        return self._dispatcher.dispatch(connection, request)

    # -- called by the handler of SaslHandshake ------------------------------------------------------------------------

    def reauthenticate(self, version: int, mechanism: str) -> Struct | None:
        """Return the answer to a SaslHandshake in a session; None if it has no end, or has only begun."""
        if self._session_end is None:
            return None
        now_ms = self._clock.monotonic_ms()
        if self._reauthentication_ms is not None and now_ms - self._reauthentication_ms < _REAUTHENTICATION_INTERVAL_MS:
            return None
        self._reauthentication_ms = now_ms
        self._previous = self._mechanism, self._connection.principal
        reply = self._shake_hands(version, mechanism)
        if reply.error_code:
            raise CloseConnection(f"Unsupported SASL mechanism {log_text(mechanism)} for re-authentication")
        if mechanism != self._previous[0]:
            self._unfit = (
                f"SASL mechanism '{mechanism}' requested by client is not supported for re-authentication"
                f" of mechanism '{self._previous[0]}'"
            )
        self._connection.redirect(self.dispatch, self._listener.max_token_bytes)
        return reply

    def _refuse_state(self, header: RequestHeader, request: memoryview) -> None:
        """Answer with ILLEGAL_SASL_STATE, in the shape of the API, and close. Raises CloseConnection, ProtocolError."""
        reason = f"a request of API key {header.api_key} during SASL authentication"
        served = self._dispatcher.served.get(header.api_key)
        if served is None or header.api_version not in served.served or len(request) > _MOST_REFUSED_BYTES:
            raise CloseConnection(reason)
        api = API_BY_KEY[served.key]
        asked = _decode(api, header, request)
        reply = error_reply(api, header.api_version, asked, ErrorCode.ILLEGAL_SASL_STATE)
        if reply is None or getattr(asked, "acks", None) == 0:
            raise CloseConnection(reason)
        self._fail(encode_response(api, header.api_version, header.correlation_id, reply), reason)

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _shake_hands(self, version: int, mechanism: str) -> Struct:
        self._mechanism = mechanism
        self._raw_tokens = version == 0
        new_exchange = self._listener.exchanges.get(mechanism)
        mechanisms = list(self._listener.exchanges)
        if new_exchange is None:
            return SASL_HANDSHAKE.response(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=mechanisms)
        self._exchange = new_exchange()
        return SASL_HANDSHAKE.response(mechanisms=mechanisms)

    def _take_raw(self, exchange: Exchange, token: bytes) -> list[Chunk] | None:
        try:
            answer = self._step(exchange, token)
        except (InvalidCredentials, Refused) as error:
            self._fail(None, str(error))
            return None
        return [frame(answer)]

    def _take(self, exchange: Exchange, header: RequestHeader, token: bytes) -> list[Chunk] | None:
        try:
            answer = self._step(exchange, token)
        except (InvalidCredentials, Refused) as error:
            message = str(error) if isinstance(error, Refused) else self._invalid_credentials()
            reply = SASL_AUTHENTICATE.response(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=message, auth_bytes=b""
            )
            self._fail(_encode(header, reply), str(error))
            return None
        lifetime_ms = self._session_lifetime_ms if self._exchange is None else 0
        return _encode(
            header, SASL_AUTHENTICATE.response(error_message="", auth_bytes=answer, session_lifetime_ms=lifetime_ms)
        )

    def _step(self, exchange: Exchange, token: bytes) -> bytes:
        if self._unfit is not None:
            raise Refused(self._unfit)
        answer = exchange.step(token)
        if exchange.user is not None:
            self._succeed(exchange, f"User:{exchange.user}")
        return answer

    def _succeed(self, exchange: Exchange, principal: str) -> None:
        if self._previous is not None and principal != self._previous[1]:
            before, now = (each.replace(":", ".", 1) for each in (self._previous[1], principal))
            raise Refused(f"Cannot change principals during re-authentication from {before}: {now}")
        self._exchange = self._previous = None
        self._connection.principal = principal
        self._connection.token_authenticated = exchange.by_token
        self.admitted = True
        self._begin_session(exchange.expires_at_ms)
        self._connection.redirect(self._dispatcher.dispatch)
        log.debug("Connection %s is %s by %s", self._connection, principal, self._mechanism)

    def _begin_session(self, expires_at_ms: int | None) -> None:
        """Start the session, and schedule its end: when the credential expires, or after the longest session."""
        self.close()
        limits = [self._listener.max_session_ms.get(self._mechanism, 0) or None]
        if expires_at_ms is not None:
            limits.append(max(expires_at_ms - self._clock.now_ms(), 0))
        self._session_lifetime_ms = min((each for each in limits if each is not None), default=0)
        if limits != [None]:
            self._session_end = self._timers.call_later(self._session_lifetime_ms, self._end_session)

    def _end_session(self) -> None:
        if self._exchange is None:  # otherwise the client is re-authenticating
            self._connection.redirect(self.dispatch_expired)

    def _fail(self, answer: list[Chunk] | None, reason: str) -> None:
        """Answer after a delay, and close: guessing passwords takes time."""
        self._failed = True
        self._exchange = None
        connection = self._connection
        reason = f"Failed authentication ({log_text(reason)})"
        self._timers.call_later(self._listener.failure_delay_ms, lambda: connection.close(reason, answer))

    def _invalid_credentials(self) -> str:
        kind = "authentication" if self._previous is None else "re-authentication"
        return f"Authentication failed during {kind} due to invalid credentials with SASL mechanism {self._mechanism}"


def _has_error(versions: Answer) -> bool:
    """Return whether an answer to ApiVersions has an error, which follows size and correlation id in the frame."""
    if isinstance(versions, list):
        versions = b"".join(bytes(chunk) for chunk in versions if isinstance(chunk, bytes | bytearray | memoryview))
    return isinstance(versions, bytes) and versions[8:10] != b"\0\0"


def _decode(api: Api, header: RequestHeader, request: memoryview) -> Struct:
    if header.api_version not in api.versions:
        raise ProtocolError(f"{api.name} v{header.api_version} is not served")
    return api.request.decode(header.api_version, request, header.position)[0]


def _encode(header: RequestHeader, reply: Struct) -> list[Chunk]:
    return encode_response(SASL_AUTHENTICATE, header.api_version, header.correlation_id, reply)
