"""The table of served APIs: which are served, in which versions, and by what.

    @handles(HEARTBEAT)                         # in broker/handlers/heartbeat.py
    def heartbeat(ctx: RequestContext, request: Struct, *, groups: GroupCoordinator) -> Reply: ...

A module of broker.handlers serves the API key of its name, in the versions of the key. So the answer to ApiVersions,
and the refusal of other versions, need none of these modules. A module is imported when the first request needs it
(broker/requests/lazy_imports.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from broker.requests.context import RequestContext
from protocol.api_keys import ApiKey
from protocol.registry import API_BY_KEY
from protocol.schema import Api, Chunk, ReadBuffer, Struct
from protocol.versions import NO_VERSIONS, VersionRange

if TYPE_CHECKING:
    from broker.requests.dispatcher import Waiting
    from runtime.deferred import Deferred

Reply: TypeAlias = "Struct | Deferred[Struct] | None"
Encode: TypeAlias = "Callable[[int, Any], list[Chunk]]"  # (correlation id, answer) -> frame in pieces
#: A handler whose services are bound (broker/requests/binding.py).
Handler: TypeAlias = "Callable[[RequestContext, Struct], Reply]"
#: The frame of an answer, whole or in pieces, perhaps later; or None: the handler has to serve the request.
FastAnswer: TypeAlias = "bytes | list[Chunk] | Deferred[list[Chunk] | None] | Waiting | None"
FastPath: TypeAlias = "Callable[[Any, memoryview, int, int], FastAnswer]"  # connection, frame, body, correlation id
#: A handler as it is written: (ctx, request, *, services) -> Reply.
DeclaredHandler: TypeAlias = "Callable[..., Reply]"
#: (version, *, services) -> the fast path of that version, or None.
FastPathFactory: TypeAlias = "Callable[..., FastPath | None]"
EncoderFactory: TypeAlias = "Callable[[int], Encode]"
H = TypeVar("H", bound=Callable[..., object])

# The versions in the answer to ApiVersions, where they differ from the served ones. Produce: from 0 on, though it may
# be served from 3 on, as Kafka does for old clients (KAFKA-18659). Telemetry: none where the broker does not receive
# it.
_ADVERTISED = {ApiKey.PRODUCE: VersionRange(0, ApiKey.PRODUCE.versions.max)}
_TELEMETRY = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: NO_VERSIONS, ApiKey.PUSH_TELEMETRY: NO_VERSIONS}


class CannotLoad(Exception):
    """The module of an API cannot be imported."""


class Implementation(NamedTuple):
    """The code that serves an API.

    `fast_path` is asked first, with the request as bytes; its answer must be the handler's. `encoder` replaces the
    encoder of the schema.
    """

    api: Api
    handler: DeclaredHandler
    fast_path: FastPathFactory | None = None
    encoder: EncoderFactory | None = None


class ServedApi:
    """An API that is served: the versions that are served, and those that ApiVersions returns.

    `implementation` is None until `load` has imported what serves the API: the module of its key, or only the messages
    where a handler is given.
    """

    #: Whether its requests count against the quotas of their clients.
    is_charged = True
    #: Whether the authorizer's rules apply here.
    is_guarded = True

    __slots__ = ("_advertised", "_handler", "advertised", "implementation", "key", "served")

    def __init__(
        self,
        key: int,
        served: VersionRange,
        advertised: VersionRange | None = None,
        *,
        handler: DeclaredHandler | None = None,
    ) -> None:
        self.key = key
        self.served = served
        self.advertised = served if advertised is None else advertised
        self.implementation: Implementation | None = None
        self._advertised = advertised
        self._handler = handler

    @property
    def is_loaded(self) -> bool:
        return self.implementation is not None

    @property
    def name(self) -> str:
        """The name of the API key, such as OFFSET_COMMIT."""
        return ApiKey(self.key).name

    @property
    def module(self) -> str:
        """The name of the module that serves the API."""
        return f"broker.handlers.{self.name.lower()}"

    def load(self) -> Implementation:
        """Import what serves the API unless it is loaded; may run in any thread. Raises CannotLoad, at each call."""
        found = self.implementation
        if found is None:
            try:
                if self._handler is not None:
                    found = Implementation(API_BY_KEY[self.key], self._handler)
                else:
                    import_module(self.module)
                    found = _declared[self.key]
            except Exception as error:  # the code of the module may raise anything
                raise CannotLoad(f"{self.module} cannot be loaded: {error!r}") from error
            self.implementation = found  # one assignment: the loop may read it at any moment
        return found

    def fail_requests(self, reason: str) -> None:
        """Answer all requests with an error from now on. Raises CannotLoad if the messages cannot be loaded either."""

        def fail(ctx: RequestContext, request: Struct) -> Reply:
            raise CannotLoad(reason)

        try:
            self.implementation = Implementation(API_BY_KEY[self.key], fail)
        except Exception:
            raise CannotLoad(reason) from None

    def decoder(self, api: Api, version: int) -> Callable[[ReadBuffer, int], tuple[Struct, int]]:
        """The decoder of requests of a version: (frame, position of the body) -> (request, end)."""
        return api.request.decoder(version)

    def with_handler(self, handler: DeclaredHandler) -> ServedApi:
        """Return the same API, served by another handler and without a fast path."""
        return ServedApi(self.key, self.served, self._advertised, handler=handler)


_declared: dict[int, Implementation] = {}


def handles(
    api: Api, *, fast_path: FastPathFactory | None = None, encoder: EncoderFactory | None = None
) -> Callable[[H], H]:
    """Register a function as the handler of an API.

    Args:
        fast_path: (version, *, services) -> a function that is asked first, with the request as bytes, or None. Its
            answer must be the same as the handler's. It checks access itself, where there is an authorizer.
        encoder: version -> encoder of whole frames, for what the handler returns and for Structs.

    Raises TypeError if another module serves the API already.
    """

    def register(handler: H) -> H:
        known = _declared.get(api.key)
        if known is not None and known.handler.__module__ != handler.__module__:
            raise TypeError(f"{api.name} has a handler in {known.handler.__module__} already")
        _declared[api.key] = Implementation(api, handler, fast_path, encoder)  # type: ignore[arg-type]
        return handler

    return register


def discover(*, legacy: bool = True, telemetry: bool = False, unstable: bool = False) -> Mapping[int, ServedApi]:
    """Return the APIs that have a module in broker.handlers, by key in ascending order.

    Args:
        legacy: serve also the versions that Kafka 4 has dropped.
        telemetry: let ApiVersions return the telemetry APIs.
        unstable: serve also the versions that are not final in Apache Kafka 4.3.
    """
    advertised = _ADVERTISED if telemetry else _ADVERTISED | _TELEMETRY
    modules = {name for folder in import_module("broker.handlers").__path__ for name in os.listdir(folder)}
    return {
        key: ServedApi(
            key,
            VersionRange(
                (key.versions if legacy else key.current).min, (key.versions if unstable else key.current).max
            ),
            advertised.get(key),
        )
        for key in ApiKey
        if f"{key.name.lower()}.py" in modules
    }
