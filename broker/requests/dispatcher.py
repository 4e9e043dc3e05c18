"""Dispatch: every request passes here on its way to a handler, and its answer on the way back.

header -> API (broker/requests/served_api.py) -> version check -> decode -> handler -> encode. ApiVersions is answered
from the same table. A request whose handler is not loaded yet waits for it. As in Apache Kafka, a request for an API or
a version that is not served closes the connection, as do bytes that cannot be decoded. ApiVersions is the exception: it
answers UNSUPPORTED_VERSION in version 0 (KIP-35, KIP-511).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from struct import Struct as Layout
from struct import error as layout_error
from types import MappingProxyType
from typing import Any, Protocol

from broker.requests.api_version_handler import ApiVersionHandler, HandlerGuard, Quotas
from broker.requests.binding import MissingService
from broker.requests.context import ClientConnection, CloseConnection, PartlyServed, RequestCharge, RequestContext
from broker.requests.error_code_map import error_code_of
from broker.requests.error_reply import error_reply
from broker.requests.served_api import CannotLoad, ServedApi
from metadata.decision import TooManyRecords
from protocol.error_codes import ErrorCode, ProtocolError
from protocol.framing import encode_response
from protocol.headers import decode_request_header
from protocol.messages.api_versions import API_VERSIONS, ApiVersion
from protocol.primitives import skip_tagged_fields
from protocol.registry import API_BY_KEY
from protocol.schema import Chunk, Struct
from runtime.deferred import Deferred
from runtime.log_limit import LimitedLog

__all__ = ["ApiVersionHandler", "CloseConnection", "Dispatcher", "RequestContext", "Waiting", "advertised_apis"]

log = logging.getLogger(__name__)

_HEADER = Layout(">Iih").unpack_from  # API key and version, correlation id, size of the client id

# A waiting request keeps the bytes it was decoded from. No other request of the connection starts behind one that is
# larger, so a connection holds at most one of them.
_MUTING_BYTES = 128 * 1024


class Sampler(Protocol):
    """Measures some requests: those that follow `ApiVersionHandler.sample_next`."""

    def on_served(self, api: str, connection: ClientConnection, began: float, answer: object) -> None:
        """Report a sampled request that its handler has returned from. `began` is in seconds of `clock`."""

    def clock(self) -> float:
        """The time in seconds."""


def advertised_apis(served: Iterable[ServedApi]) -> list[Struct]:
    """Return the list of APIs for an ApiVersions answer."""
    return [
        ApiVersion(api_key=each.key, min_version=each.advertised.min, max_version=each.advertised.max)
        for each in served
        if each.advertised
    ]


class Waiting:
    """A request that is answered later: `Dispatcher.finish` makes the frame of its answer once `deferred` is done.

    `request` is the decoded request. It is the frame as it came where the handler has not seen it yet: while a
    fast path waits, whose value is a frame or None for "serve it by the handler", and, without an
    `api_version_handler`, while the handler is being loaded. It is empty if `deferred` gets the answer's frame in any
    case.
    """

    __slots__ = ("api_version_handler", "charge", "correlation_id", "deferred", "request")

    def __init__(
        self,
        api_version_handler: ApiVersionHandler | None,
        correlation_id: int,
        request: Struct | bytes,
        deferred: Deferred[Any],
        charge: RequestCharge | None = None,
    ) -> None:
        self.charge = charge
        self.api_version_handler = api_version_handler
        self.correlation_id = correlation_id
        self.request = request
        self.deferred = deferred


def _nothing() -> None:
    """Do nothing before a handler, unless the server needs something done."""


def _load_now(served: ServedApi) -> Deferred[None]:
    """Load an API at once, where no thread does it."""
    served.load()
    return Deferred.resolved(None)


_NO_SERVICES: Mapping[str, object] = MappingProxyType({})


class Dispatcher:
    """Turns frames of requests into frames of answers. It knows nothing of sockets.

    Attributes:
        services: what handlers may declare, by name (broker/services.py). Set before the first request, as is `guard`.
        guard: checks access before handlers; None without an authorizer.
        quotas: None while no client has a quota.
        load: loads what serves an API, off the loop.
        before_handler: called before each request that no fast path answers, because the handler may take long.
    """

    __slots__ = (
        "_failure_log",
        "_failures",
        "_prepared",
        "_quotas",
        "_sampler",
        "before_handler",
        "guard",
        "load",
        "served",
        "services",
    )

    def __init__(self, served: Mapping[int, ServedApi], services: Mapping[str, object] = _NO_SERVICES) -> None:
        self.served = dict(served)
        self.services = services
        self.guard: HandlerGuard | None = None
        self._sampler: Sampler | None = None
        self.load: Callable[[ServedApi], Deferred[None]] = _load_now
        self.before_handler: Callable[[], None] = _nothing
        self._quotas: Quotas | None = None
        # By the first four bytes of a request: API key << 16 | version.
        self._prepared: dict[int, ApiVersionHandler] = {}
        self._failures: set[object] = set()  # kinds of failures that were logged, at most one for a line of code
        self._failure_log = LimitedLog(log, lines=1)

    @property
    def prepared(self) -> Iterable[ApiVersionHandler]:
        """The versions that clients have used so far."""
        return self._prepared.values()

    @property
    def quotas(self) -> Quotas | None:
        return self._quotas

    @quotas.setter
    def quotas(self, quotas: Quotas | None) -> None:
        self._quotas = quotas
        for each in self._prepared.values():
            each.observe(quotas)

    def sample_with(self, sampler: Sampler) -> None:
        """Report to `sampler` the requests for which `ApiVersionHandler.sample_next` asks."""
        self._sampler = sampler

    def dispatch(
        self, connection: ClientConnection, frame: memoryview, again: bool = False
    ) -> bytes | list[Chunk] | Waiting | None:
        """Serve one request, by a fast path where its API has one. `again`: a fast path has left it to the handler.

        Returns the frame of its answer, whole or in pieces; a Waiting if it comes later; None if there is none. Raises
        ProtocolError for malformed bytes and CloseConnection for what is not served: the connection then ends.
        """
        try:
            key_and_version, correlation_id, client_id_size = _HEADER(frame)
            served_by = self._prepared.get(key_and_version) or self._prepare(key_and_version)
            if served_by is None:
                return self._load_or_refuse(key_and_version, frame)
            if not again:
                served_by.requests += 1
            position = body = 10 + client_id_size if client_id_size > 0 else 10
            if body > len(frame):
                raise ProtocolError("the client id reaches beyond the frame")
            if served_by.tagged:
                tags = frame[body]
                body += 1
                if tags:
                    body, _ = skip_tagged_fields(frame, body, tags, len(frame))
        except (layout_error, IndexError):
            raise ProtocolError("the bytes end before the request header does") from None
        charge = began = progress = answer = None
        if served_by.is_observed:
            if self._quotas is not None and served_by.is_charged:
                charge = self._quotas.charge(connection, bytes(frame[10:position]), served_by.api, len(frame))
            if served_by.take_sample(self._quotas) and self._sampler is not None:
                began = self._sampler.clock()
        if not again and served_by.fast_path is not None and charge is None:
            try:
                answer = served_by.fast_path(connection, frame, body, correlation_id)
            except CloseConnection:
                raise
            except PartlyServed as begun:
                progress = begun.progress
            except Exception as error:  # the fast path may have written: the handler must not do it again
                return self._failed(served_by, correlation_id, served_by.decode(frame, body)[0], error)
            if answer is not None:
                if began is not None:
                    self._measure(served_by, connection, began, answer)
                if type(answer) is Deferred:
                    return Waiting(served_by, correlation_id, bytes(frame), answer)
                return answer  # type: ignore[return-value]
        self.before_handler()
        client_id = str(frame[10:position], "utf-8", "replace") if client_id_size >= 0 else None
        request = served_by.decode(frame, body)[0]
        try:
            ctx = RequestContext(connection, served_by.api, served_by.version, correlation_id, client_id, charge)
            if progress is not None:
                ctx.progress = progress
            reply = served_by.handler(ctx, request)
            if began is not None:
                self._measure(served_by, connection, began, reply)
            if type(reply) is Deferred:
                if not reply.done:
                    if len(frame) > _MUTING_BYTES:
                        reply.mutes = True
                    if charge is not None:
                        charge.pause()
                    return Waiting(served_by, correlation_id, request, reply, charge)
                reply = reply.result()
            if charge is not None:
                reply = charge.settle(reply)
            return None if reply is None else served_by.encode(correlation_id, reply)
        except CloseConnection:
            raise
        except Exception as error:
            return self._failed(served_by, correlation_id, request, error, charge)

    def finish(self, connection: ClientConnection, waiting: Waiting) -> bytes | list[Chunk] | Waiting | None:
        """Answer a request that has waited. Returns and raises as `dispatch`."""
        request = waiting.request
        if type(request) is bytes:
            try:
                answer: list[Chunk] | None = waiting.deferred.result()
            except CannotLoad as error:
                raise CloseConnection(str(error)) from None
            if answer:
                return answer
            return self.dispatch(connection, memoryview(request), again=True)
        charge, served_by = waiting.charge, waiting.api_version_handler
        assert served_by is not None
        if charge is not None:
            charge.resume()
        try:
            reply = waiting.deferred.result()
            if charge is not None:
                reply = charge.settle(reply)
            return None if reply is None else served_by.encode(waiting.correlation_id, reply)
        except CloseConnection:
            raise
        except Exception as error:
            return self._failed(served_by, waiting.correlation_id, request, error, charge)  # type: ignore[arg-type]

    def _measure(
        self, served_by: ApiVersionHandler, connection: ClientConnection, began: float, answer: object
    ) -> None:
        if self._sampler is not None:
            result = answer.deferred if type(answer) is Waiting else answer
            self._sampler.on_served(served_by.api.name, connection, began, result)

    def _prepare(self, key_and_version: int) -> ApiVersionHandler | None:
        """Prepare a version of an API at its first request; None if it is not served, or not loaded.

        Raises CloseConnection if this process cannot serve it.
        """
        key, version = key_and_version >> 16, key_and_version & 0xFFFF
        served = self.served.get(key)
        if served is None or not served.is_loaded or version not in served.served:
            return None
        try:
            prepared = ApiVersionHandler(served, version, self.services, self.guard, self._quotas)
        except MissingService as error:
            self._failure_log.warning("%s requests are not served: %s", served.name, error)
            raise CloseConnection(str(error)) from None
        self._prepared[key_and_version] = prepared
        return prepared

    def _load_or_refuse(self, key_and_version: int, frame: memoryview) -> list[Chunk] | Waiting:
        """Let a request wait until its handler is loaded; refuse one that is not served."""
        served = self.served.get(key_and_version >> 16)
        if served is None or served.is_loaded or key_and_version & 0xFFFF not in served.served:
            return self._refuse(frame)

        def count(_: None) -> None:
            prepared = self._prepared.get(key_and_version) or self._prepare(key_and_version)
            if prepared is not None:
                prepared.requests += 1

        return Waiting(None, 0, bytes(frame), self.load(served).then(count))

    def _failed(
        self,
        served_by: ApiVersionHandler,
        correlation_id: int,
        request: Struct,
        error: Exception,
        charge: RequestCharge | None = None,
    ) -> list[Chunk]:
        """Return the error answer after a handler raised. Raises CloseConnection if the API has none."""
        code = error_code_of(error)
        message = str(error) if isinstance(error, TooManyRecords) else None  # others may name files
        if code is ErrorCode.UNKNOWN_SERVER_ERROR:
            self._log_failure(served_by, error)
        try:
            reply = error_reply(served_by.api, served_by.version, request, code, message)
            if reply is not None:
                return served_by.encode(correlation_id, reply if charge is None else charge.settle(reply))
        except Exception:
            log.exception("The error answer of %s v%d could not be made", served_by.api.name, served_by.version)
        raise CloseConnection(f"{served_by.api.name} failed with {code.name}") from None

    def _log_failure(self, served_by: ApiVersionHandler, error: Exception) -> None:
        """Log a traceback for the first failure of its kind and a line for the next ones: clients retry for ever."""
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        api, version = served_by.api, served_by.version
        kind = (api.key, type(error), trace and trace.tb_frame.f_code, trace and trace.tb_lineno)
        if kind in self._failures:
            self._failure_log.warning("Serving %s v%d failed again: %r", api.name, version, error)
            return
        self._failures.add(kind)
        log.error("Serving %s v%d failed", api.name, version, exc_info=error)

    def _refuse(self, frame: memoryview) -> list[Chunk]:
        """Answer a version of ApiVersions that is not served. Raises CloseConnection for any other API."""
        header = decode_request_header(frame)
        served = self.served.get(header.api_key)
        if served is None:
            raise CloseConnection(f"API key {header.api_key} is not served")
        if served.key != API_VERSIONS.key:
            raise CloseConnection(f"{API_BY_KEY[served.key].name} v{header.api_version} is not served")
        reply = API_VERSIONS.response(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=advertised_apis([served]))
        return encode_response(API_VERSIONS, 0, header.correlation_id, reply)
