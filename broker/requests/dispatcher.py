"""Dispatch: the one place that requests pass on their way to a handler and their answers on the way back.

header -> row of the API (broker/requests/served_api.py) -> version gate -> decode -> handler -> encode. What
ApiVersions answers is
read from the same rows. A request whose handler is not loaded yet waits for it. As Apache Kafka does, an API or version
that is not served closes the connection, but for ApiVersions itself, which answers UNSUPPORTED_VERSION in version 0
(KIP-35, KIP-511); so do bytes that do not decode.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from struct import Struct as Layout
from struct import error as layout_error
from typing import TYPE_CHECKING, Any

from broker.requests.error_map import error_code_of
from broker.requests.error_reply import error_reply
from broker.requests.served_api import CannotLoad, Encode, Row
from protocol.errors import ErrorCode, ProtocolError
from protocol.framing import encode_response, response_encoder
from protocol.headers import decode_request_header
from protocol.messages.api_versions import API_VERSIONS, ApiVersion
from protocol.primitives import skip_tagged_fields
from protocol.schema import Api, Chunk, ReadBuffer, Struct
from runtime.deferred import Deferred
from runtime.log_limit import LimitedLog

if TYPE_CHECKING:
    from broker.access.authorization.guard import Guard
    from broker.access.quotas.charge import Charge
    from broker.access.quotas.client_quotas import ClientQuotas
    from broker.broker import Broker
    from broker.network.connection import Connection

log = logging.getLogger(__name__)

_HEADER = Layout(">Iih").unpack_from  # API key and version, correlation id, size of the client id

# A request that waits keeps what it was decoded from. Behind one of more than so many bytes nothing is started, so that
# a connection has only one of them.
_MUTING_BYTES = 128 * 1024


class CloseConnection(Exception):
    """A request that is answered by closing the connection; a handler may raise it too (acks=0 that failed)."""


class RequestContext:
    """What a handler is told about a request besides its body. Valid for as long as the request is being answered.

    `charge` is what it takes of quotas, None where its client has none.
    """

    __slots__ = ("api", "api_version", "broker", "charge", "client_id", "connection", "correlation_id")

    def __init__(
        self,
        broker: Broker,
        connection: Connection,
        api: Api,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        charge: Charge | None = None,
    ) -> None:
        self.broker = broker
        self.connection = connection
        self.api = api
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.charge = charge


class Codec:
    """What it takes to read a request and write its answer in one version of one API, looked up once."""

    __slots__ = ("api", "decode", "encode", "handler", "is_charged", "requests", "shortcut", "tagged", "version")

    def __init__(self, row: Row, version: int, broker: Broker, guard: Guard | None = None) -> None:
        self.api = row.api
        self.version = version
        self.is_charged = row.is_charged
        self.handler = row.handler if guard is None else guard.protect(row.api, row.handler)
        self.shortcut = row.shortcut(broker, version) if row.shortcut is not None else None
        self.decode: Callable[[ReadBuffer, int], tuple[Struct, int]] = row.decoder(version)
        self.encode: Encode = row.encoder(version) if row.encoder is not None else response_encoder(row.api, version)
        self.tagged = row.api.request_header_version(version) == 2
        #: How many have come.
        self.requests = 0


def advertised_apis(rows: Iterable[Row]) -> list[Struct]:
    """The list of APIs in an ApiVersions answer."""
    return [
        ApiVersion(api_key=row.key, min_version=row.advertised.min, max_version=row.advertised.max)
        for row in rows
        if row.advertised
    ]


class Waiting:
    """A request whose handler answered with a Deferred; `Dispatcher.finish` makes its frame once that is done.

    Of a shortcut's Deferred, whose value is a frame, or None for "not for this path", the request is kept as it came;
    so is one, without a codec, whose handler is being loaded.
    """

    __slots__ = ("charge", "codec", "correlation_id", "deferred", "request")

    def __init__(
        self,
        codec: Codec | None,
        correlation_id: int,
        request: Struct | bytes,
        deferred: Deferred[Any],
        charge: Charge | None = None,
    ) -> None:
        self.charge = charge
        self.codec = codec
        self.correlation_id = correlation_id
        self.request = request
        self.deferred = deferred


def _nothing() -> None:
    """What is done before a handler where nobody has asked for anything."""


class Dispatcher:
    """Frames of requests in, frames of answers out. Knows nothing of sockets.

    `guard` is set before the first request, where there is an authorizer; `quotas` while any client has one.
    `before_handler` is called before each request that no shortcut answers, which may take long.
    """

    __slots__ = ("_broker", "_codecs", "_failure_log", "_failures", "before_handler", "guard", "quotas", "rows")

    def __init__(self, broker: Broker, rows: Mapping[int, Row]) -> None:
        self._broker = broker
        self._codecs: dict[int, Codec] = {}  # by the first four bytes of a request: API key << 16 | version
        self._failures: set[object] = set()  # kinds that were logged: one for each place in the code at most
        self._failure_log = LimitedLog(log, per_second=1)
        self.guard: Guard | None = None
        self.quotas: ClientQuotas | None = None
        self.before_handler: Callable[[], None] = _nothing
        self.rows = dict(rows)

    @property
    def codecs(self) -> Iterable[Codec]:
        """Those of the versions that were asked for so far."""
        return self._codecs.values()

    def dispatch(
        self, connection: Connection, frame: memoryview, again: bool = False
    ) -> bytes | list[Chunk] | Waiting | None:
        """Serve one request, by a shortcut where its API has one; `again` one that this has left to the handler.

        Returns the frame of its answer, whole or in pieces, a Waiting when it comes later, or None when none is to be
        sent. Raises ProtocolError for malformed bytes and CloseConnection for what is not served: the connection
        then ends.
        """
        try:
            key_and_version, correlation_id, client_id_size = _HEADER(frame)
            codec = self._codecs.get(key_and_version) or self._prepare(key_and_version)
            if codec is None:
                return self._load_or_refuse(key_and_version, frame)
            if not again:
                codec.requests += 1
            position = body = 10 + client_id_size if client_id_size > 0 else 10
            if body > len(frame):
                raise ProtocolError("the client id reaches beyond the frame")
            if codec.tagged:
                tags = frame[body]
                body += 1
                if tags:
                    body, _ = skip_tagged_fields(frame, body, tags, len(frame))
        except (layout_error, IndexError):
            raise ProtocolError("the bytes end before the request header does") from None
        charge = None
        if self.quotas is not None and codec.is_charged:
            charge = self.quotas.charge(connection, bytes(frame[10:position]), codec.api, len(frame))
        if not again and codec.shortcut is not None and charge is None:
            try:
                answer = codec.shortcut(connection, frame, body, correlation_id)
            except CloseConnection:
                raise
            except Exception as error:  # it may have written: the handler is not to do so again
                return self._failed(codec, correlation_id, codec.decode(frame, body)[0], error)
            if type(answer) is Deferred:
                return Waiting(codec, correlation_id, bytes(frame), answer)
            if answer is not None:
                return answer  # type: ignore[return-value]
        self.before_handler()
        client_id = str(frame[10:position], "utf-8", "replace") if client_id_size >= 0 else None
        request = codec.decode(frame, body)[0]
        try:
            ctx = RequestContext(self._broker, connection, codec.api, codec.version, correlation_id, client_id, charge)
            reply = codec.handler(ctx, request)
            if type(reply) is Deferred:
                if not reply.done:
                    if len(frame) > _MUTING_BYTES:
                        reply.mutes = True
                    if charge is not None:
                        charge.pause()
                    return Waiting(codec, correlation_id, request, reply, charge)
                reply = reply.result()
            if charge is not None:
                reply = charge.settle(reply)
            return None if reply is None else codec.encode(correlation_id, reply)
        except CloseConnection:
            raise
        except Exception as error:
            return self._failed(codec, correlation_id, request, error, charge)

    def finish(self, connection: Connection, waiting: Waiting) -> bytes | list[Chunk] | Waiting | None:
        """What became of a request that waited: as `dispatch`."""
        request = waiting.request
        if type(request) is bytes:
            try:
                answer: list[Chunk] | None = waiting.deferred.result()
            except CannotLoad as error:
                raise CloseConnection(str(error)) from None
            if answer:
                return answer
            return self.dispatch(connection, memoryview(request), again=True)
        charge, codec = waiting.charge, waiting.codec
        assert codec is not None
        if charge is not None:
            charge.resume()
        try:
            reply = waiting.deferred.result()
            if charge is not None:
                reply = charge.settle(reply)
            return None if reply is None else codec.encode(waiting.correlation_id, reply)
        except CloseConnection:
            raise
        except Exception as error:
            return self._failed(codec, waiting.correlation_id, request, error, charge)  # type: ignore[arg-type]

    def _prepare(self, key_and_version: int) -> Codec | None:
        """Compile an API's version on its first use; None when it is not served, or not loaded."""
        key, version = key_and_version >> 16, key_and_version & 0xFFFF
        row = self.rows.get(key)
        if row is None or not row.is_loaded or version not in row.served:
            return None
        codec = self._codecs[key_and_version] = Codec(row, version, self._broker, self.guard)
        return codec

    def _load_or_refuse(self, key_and_version: int, frame: memoryview) -> list[Chunk] | Waiting:
        """What becomes of a request that nothing is prepared for: it comes again once its handler is loaded."""
        row = self.rows.get(key_and_version >> 16)
        if row is None or row.is_loaded or key_and_version & 0xFFFF not in row.served:
            return self._refuse(frame)

        def count(_: None) -> None:
            codec = self._codecs.get(key_and_version) or self._prepare(key_and_version)
            if codec is not None:
                codec.requests += 1

        return Waiting(None, 0, bytes(frame), self._broker.lazy_imports.load(row).then(count))

    def _failed(
        self, codec: Codec, correlation_id: int, request: Struct, error: Exception, charge: Charge | None = None
    ) -> list[Chunk]:
        """The answer where a handler raised: the error in the shape of the API; else the connection closes."""
        code = error_code_of(error)
        if code is ErrorCode.UNKNOWN_SERVER_ERROR:
            self._log_failure(codec, error)
        try:
            reply = error_reply(codec.api, codec.version, request, code)
            if reply is not None:
                return codec.encode(correlation_id, reply if charge is None else charge.settle(reply))
        except Exception:
            log.exception("The error answer of %s v%d could not be made", codec.api.name, codec.version)
        raise CloseConnection(f"{codec.api.name} failed with {code.name}") from None

    def _log_failure(self, codec: Codec, error: Exception) -> None:
        """A traceback for the first failure of its kind, a line for the next: clients try again and again."""
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        kind = (codec.api.key, type(error), trace and trace.tb_frame.f_code, trace and trace.tb_lineno)
        if kind in self._failures:
            self._failure_log.warning("Serving %s v%d failed again: %r", codec.api.name, codec.version, error)
            return
        self._failures.add(kind)
        log.error("Serving %s v%d failed", codec.api.name, codec.version, exc_info=error)

    def _refuse(self, frame: memoryview) -> list[Chunk]:
        """Answer an API or version that is not served: close, but for ApiVersions."""
        header = decode_request_header(frame)
        row = self.rows.get(header.api_key)
        if row is None:
            raise CloseConnection(f"API key {header.api_key} is not served")
        if row.key != API_VERSIONS.key:
            raise CloseConnection(f"{row.api.name} v{header.api_version} is not served")
        reply = API_VERSIONS.response(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=advertised_apis([row]))
        return encode_response(API_VERSIONS, 0, header.correlation_id, reply)
