"""Dispatch: the one place that requests pass on their way to a handler and their answers on the way back.

    @handles(HEARTBEAT)                         # in broker/handlers/heartbeat.py
    def heartbeat(ctx: RequestContext, request: Struct) -> Reply: ...

header -> row of the API -> version gate -> decode -> handler -> encode. What ApiVersions answers is read from the same rows.
As Apache Kafka does, an API or version that is not served closes the connection, but for ApiVersions itself, which answers
UNSUPPORTED_VERSION in version 0 (KIP-35, KIP-511); so do bytes that do not decode.
"""

from __future__ import annotations

import logging
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from struct import Struct as Layout
from struct import error as layout_error
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from broker.deferred import Deferred
from broker.error_map import error_code_of
from broker.error_reply import error_reply
from protocol.errors import ErrorCode, ProtocolError
from protocol.framing import encode_response
from protocol.headers import decode_request_header
from protocol.messages.api_versions import API_VERSIONS, ApiVersion
from protocol.primitives import skip_tagged_fields
from protocol.schema import Api, Chunk, ReadBuffer, Struct
from protocol.versions import VersionRange, parse_versions

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.network.connection import Connection

log = logging.getLogger(__name__)

Reply: TypeAlias = "Struct | Deferred[Struct] | None"
Handler: TypeAlias = "Callable[[RequestContext, Struct], Reply]"
H = TypeVar("H", bound=Callable[..., object])

_HEADER = Layout(">hhih")  # API key, version, correlation id, size of the client id


class CloseConnection(Exception):
    """A request that is answered by closing the connection; a handler may raise it too (acks=0 that failed)."""


class RequestContext:
    """What a handler is told about a request besides its body. Valid for as long as the request is being answered."""

    __slots__ = ("api", "api_version", "broker", "client_id", "connection", "correlation_id")

    def __init__(
        self,
        broker: Broker,
        connection: Connection,
        api: Api,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
    ) -> None:
        self.broker = broker
        self.connection = connection
        self.api = api
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id


class Row:
    """An API that is served: its handler, the versions served, and those advertised (more, where Kafka does so)."""

    __slots__ = ("advertised", "api", "decoders", "handler", "served")

    def __init__(self, api: Api, handler: Handler, served: VersionRange, advertised: VersionRange) -> None:
        self.api = api
        self.handler = handler
        self.served = served
        self.advertised = advertised
        # version -> (decode, whether the header has tagged fields); filled as versions are first asked for.
        self.decoders: dict[int, tuple[Callable[[ReadBuffer, int], tuple[Struct, int]], bool]] = {}

    def prepare(self, version: int) -> tuple[Callable[[ReadBuffer, int], tuple[Struct, int]], bool] | None:
        """Compile the decoder for a version on its first use; None for a version that is not served."""
        if version not in self.served:
            return None
        prepared = (self.api.request.decoder(version), self.api.request_header_version(version) == 2)
        self.decoders[version] = prepared
        return prepared


_declared: dict[int, Row] = {}


def handles(api: Api, *, versions: str | None = None, advertised: str | None = None) -> Callable[[H], H]:
    """Register a function as the handler of an API.

    Args:
        versions: served; those that Apache Kafka 4.3 serves unless told.
        advertised: told to clients by ApiVersions; the served ones unless told.

    Raises TypeError when a version has no schema, or the API a handler already.
    """
    served = parse_versions(versions) if versions is not None else api.current
    shown = parse_versions(advertised) if advertised is not None else served

    def register(handler: H) -> H:
        known = _declared.get(api.key)
        if known is not None and known.handler.__module__ != handler.__module__:
            raise TypeError(f"{api.name} has a handler in {known.handler.__module__} already")
        if served.min < api.versions.min or served.max > api.versions.max:
            raise TypeError(f"{api.name}: versions {served} served, but the schema has {api.versions}")
        _declared[api.key] = Row(api, handler, served, shown)  # type: ignore[arg-type]
        return handler

    return register


def discover() -> Mapping[int, Row]:
    """Import every module of broker.handlers and return the rows of all APIs, by key in ascending order."""
    package = import_module("broker.handlers")
    for module in pkgutil.iter_modules(package.__path__):
        import_module(f"broker.handlers.{module.name}")
    return dict(sorted(_declared.items()))


def advertised_apis(rows: Iterable[Row]) -> list[Struct]:
    """The list of APIs in an ApiVersions answer."""
    return [
        ApiVersion(api_key=row.api.key, min_version=row.advertised.min, max_version=row.advertised.max)
        for row in rows
        if row.advertised
    ]


class Waiting:
    """A request whose handler answered with a Deferred; `Dispatcher.finish` makes its frame once that is done."""

    __slots__ = ("correlation_id", "deferred", "request", "row", "version")

    def __init__(self, row: Row, version: int, correlation_id: int, request: Struct, deferred: Deferred[Struct]) -> None:
        self.row = row
        self.version = version
        self.correlation_id = correlation_id
        self.request = request
        self.deferred = deferred


class Dispatcher:
    """Frames of requests in, frames of answers out. Knows nothing of sockets."""

    __slots__ = ("_broker", "rows")

    def __init__(self, broker: Broker, rows: Mapping[int, Row]) -> None:
        self._broker = broker
        self.rows = dict(rows)

    def dispatch(self, connection: Connection, frame: memoryview) -> list[Chunk] | Waiting | None:
        """Serve one request.

        Returns the frame of its answer in pieces, a Waiting when it comes later, or None when none is to be sent.
        Raises ProtocolError for malformed bytes and CloseConnection for what is not served: the connection then ends.
        """
        try:
            api_key, version, correlation_id, client_id_size = _HEADER.unpack_from(frame)
            row = self.rows[api_key]
            prepared = row.decoders.get(version) or row.prepare(version)
            if prepared is None:
                return self._refuse(frame)
            decode, tagged = prepared
            if client_id_size >= 0:
                position = 10 + client_id_size
                if position > len(frame):
                    raise ProtocolError("the client id reaches beyond the frame")
                client_id: str | None = str(frame[10:position], "utf-8")
            else:
                position = 10
                client_id = None
            if tagged:
                tags = frame[position]
                position += 1
                if tags:
                    position = skip_tagged_fields(frame, position, tags, len(frame))
        except KeyError:
            return self._refuse(frame)
        except (layout_error, IndexError, UnicodeDecodeError) as error:
            raise ProtocolError(f"request header: {error}") from None
        request = decode(frame, position)[0]
        ctx = RequestContext(self._broker, connection, row.api, version, correlation_id, client_id)
        try:
            reply = row.handler(ctx, request)
            if type(reply) is Deferred:
                if not reply.done:
                    return Waiting(row, version, correlation_id, request, reply)
                reply = reply.result()
            if reply is None:
                return None
            return encode_response(row.api, version, correlation_id, reply)
        except CloseConnection:
            raise
        except Exception as error:
            return self._failed(row, version, correlation_id, request, error)

    def finish(self, waiting: Waiting) -> list[Chunk] | None:
        """The frame of an answer that came later; None when none is to be sent. Raises CloseConnection."""
        try:
            reply = waiting.deferred.result()
            if reply is None:
                return None
            return encode_response(waiting.row.api, waiting.version, waiting.correlation_id, reply)
        except CloseConnection:
            raise
        except Exception as error:
            return self._failed(waiting.row, waiting.version, waiting.correlation_id, waiting.request, error)

    def _failed(self, row: Row, version: int, correlation_id: int, request: Struct, error: Exception) -> list[Chunk]:
        """The answer for a request whose handler raised: the error in the shape of the API, or the connection closes."""
        code = error_code_of(error)
        if code is ErrorCode.UNKNOWN_SERVER_ERROR:
            log.error("Serving %s v%d failed", row.api.name, version, exc_info=error)
        try:
            reply = error_reply(row.api, request, code)
            if reply is not None:
                return encode_response(row.api, version, correlation_id, reply)
        except Exception:
            log.exception("The error answer of %s v%d could not be made", row.api.name, version)
        raise CloseConnection(f"{row.api.name} failed with {code.name}") from None

    def _refuse(self, frame: memoryview) -> list[Chunk]:
        """Answer an API or version that is not served: close, but for ApiVersions."""
        header = decode_request_header(frame)
        row = self.rows.get(header.api_key)
        if row is None:
            raise CloseConnection(f"API key {header.api_key} is not served")
        if row.api is not API_VERSIONS:
            raise CloseConnection(f"{row.api.name} v{header.api_version} is not served")
        reply = API_VERSIONS.response(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=advertised_apis([row]))
        return encode_response(API_VERSIONS, 0, header.correlation_id, reply)
