"""The table of APIs: which are served, in which versions, and by what.

    @handles(HEARTBEAT)                         # in broker/handlers/heartbeat.py
    def heartbeat(ctx: RequestContext, request: Struct) -> Reply: ...

A module of broker.handlers that has the name of an API key serves that API; its versions are those of the key. So what
ApiVersions answers, and what is refused, is known without any of them. The module itself is imported when the first
request asks for it (broker/requests/lazy_imports.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from protocol.api_keys import ApiKey
from protocol.registry import API_BY_KEY
from protocol.schema import Api, Chunk, ReadBuffer, Struct
from protocol.versions import NO_VERSIONS, VersionRange

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.network.connection import Connection
    from broker.requests.dispatcher import RequestContext
    from runtime.deferred import Deferred

Reply: TypeAlias = "Struct | Deferred[Struct] | None"
Encode: TypeAlias = "Callable[[int, Any], list[Chunk]]"  # (correlation id, answer) -> frame in pieces
Handler: TypeAlias = "Callable[[RequestContext, Struct], Reply]"
# (connection, frame, position of the body, correlation id) -> the frame of the answer, whole or in pieces, perhaps
# later, or None: not for this path
Shortcut: TypeAlias = (
    "Callable[[Connection, memoryview, int, int], bytes | list[Chunk] | Deferred[list[Chunk] | None] | None]"
)
H = TypeVar("H", bound=Callable[..., object])

# What ApiVersions tells where that is not what is served: Produce from 0 on also where it is served from 3 on, as Kafka
# does for old clients (KAFKA-18659); and telemetry, where nobody receives it, not at all.
_ADVERTISED = {ApiKey.PRODUCE: VersionRange(0, ApiKey.PRODUCE.versions.max)}
_TELEMETRY = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: NO_VERSIONS, ApiKey.PUSH_TELEMETRY: NO_VERSIONS}


class CannotLoad(Exception):
    """A module of the broker's own that cannot be imported."""


class Row:
    """An API that is served: the versions served, and those advertised (more, where Kafka does so).

    What serves it is `api`, `handler`, `shortcut` and `encoder`: those of its module, which `load` imports, as does
    asking for one of them; none of it where a handler is given. `is_charged`: its requests take of their clients'
    quotas.
    """

    is_charged = True

    __slots__ = ("_shown", "advertised", "api", "encoder", "handler", "is_loaded", "key", "served", "shortcut")

    api: Api
    handler: Handler
    shortcut: Callable[[Broker, int], Shortcut | None] | None
    encoder: Callable[[int], Encode] | None

    def __init__(
        self,
        key: int,
        served: VersionRange,
        shown: VersionRange | None = None,
        *,
        handler: Handler | None = None,
        shortcut: Callable[[Broker, int], Shortcut | None] | None = None,
        encoder: Callable[[int], Encode] | None = None,
    ) -> None:
        self.key = key
        self.served = served
        self.advertised = served if shown is None else shown
        self._shown = shown
        self.is_loaded = handler is not None
        if handler is not None:
            self.handler, self.shortcut, self.encoder = handler, shortcut, encoder

    def __getattr__(self, name: str) -> Any:
        """What is asked for before it is loaded. Raises CannotLoad."""
        if name == "api":
            self.api = API_BY_KEY[self.key]
        elif name in {"handler", "shortcut", "encoder"} and not self.is_loaded:
            self.load()
        else:
            raise AttributeError(f"{type(self).__name__} has no attribute {name}")
        return getattr(self, name)

    @property
    def name(self) -> str:
        """The name of the API key."""
        return ApiKey(self.key).name

    @property
    def module(self) -> str:
        """The name of the module that serves the API."""
        return f"broker.handlers.{self.name.lower()}"

    def load(self) -> None:
        """Import the module of the API, on whatever thread. Raises CannotLoad; when it is called again, too."""
        if self.is_loaded:
            return
        try:
            import_module(self.module)
            declared = _declared[self.key]
        except Exception as error:  # any: it is the module's own code that runs
            raise CannotLoad(f"{self.module} cannot be loaded: {error!r}") from error
        self.api, self.handler, self.shortcut, self.encoder = declared
        self.is_loaded = True  # last: the loop may look at it meanwhile

    def give_up(self, reason: str) -> None:
        """Serve nothing but errors from now on. Raises CannotLoad where the API's messages are not to be had either."""

        def fail(ctx: RequestContext, request: Struct) -> Reply:
            raise CannotLoad(reason)

        try:
            self.api = API_BY_KEY[self.key]
        except Exception:
            raise CannotLoad(reason) from None
        self.handler, self.shortcut, self.encoder = fail, None, None
        self.is_loaded = True

    def decoder(self, version: int) -> Callable[[ReadBuffer, int], tuple[Struct, int]]:
        """What gives a handler its requests."""
        return self.api.request.decoder(version)

    def with_handler(self, handler: Handler) -> Row:
        """The same versions with another handler, and no shortcut."""
        return Row(self.key, self.served, self._shown, handler=handler)


class Declared(NamedTuple):
    """What a module has given to `handles`."""

    api: Api
    handler: Handler
    shortcut: Callable[[Broker, int], Shortcut | None] | None
    encoder: Callable[[int], Encode] | None


_declared: dict[int, Declared] = {}


def handles(
    api: Api,
    *,
    shortcut: Callable[[Broker, int], Shortcut | None] | None = None,
    encoder: Callable[[int], Encode] | None = None,
) -> Callable[[H], H]:
    """Register a function as the handler of an API.

    Args:
        shortcut: (broker, version) -> what is asked first, with the request as bytes, if anything. What it answers has
            to be what the handler would. Where there is a guard it asks that itself.
        encoder: version -> encoder of whole frames, shaped by hand: of what the handler answers, and of Structs.

    Raises TypeError when the API has a handler already.
    """

    def register(handler: H) -> H:
        known = _declared.get(api.key)
        if known is not None and known.handler.__module__ != handler.__module__:
            raise TypeError(f"{api.name} has a handler in {known.handler.__module__} already")
        _declared[api.key] = Declared(api, handler, shortcut, encoder)  # type: ignore[arg-type]
        return handler

    return register


def discover(*, legacy: bool = True, telemetry: bool = False, unstable: bool = False) -> Mapping[int, Row]:
    """The rows of all APIs that have a module in broker.handlers, by key in ascending order.

    They are served from the first version that has a schema to the last of Apache Kafka 4.3; without `legacy` in
    exactly the latter's versions, without those that Kafka 4 has dropped; with `unstable` also in versions that are not
    final. Clients are told of `telemetry` where it is received.
    """
    advertised = _ADVERTISED if telemetry else _ADVERTISED | _TELEMETRY
    modules = {name for folder in import_module("broker.handlers").__path__ for name in os.listdir(folder)}
    return {
        key: Row(
            key,
            VersionRange(
                (key.versions if legacy else key.current).min, (key.versions if unstable else key.current).max
            ),
            advertised.get(key),
        )
        for key in ApiKey
        if f"{key.name.lower()}.py" in modules
    }
