"""One version of one API, prepared for its requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from broker.requests.binding import bind
from broker.requests.context import ClientConnection, RequestCharge
from broker.requests.served_api import Encode, Handler, Implementation, ServedApi
from protocol.framing import response_encoder
from protocol.schema import Api, ReadBuffer, Struct


class HandlerGuard(Protocol):
    """The authorizer's side of a broker that has one."""

    def protect(self, api: Api, handler: Handler) -> Handler:
        """Return a handler that checks access first."""


class Quotas(Protocol):
    """The quotas of clients."""

    def charge(self, connection: ClientConnection, client_id: bytes, api: Api, size: int) -> RequestCharge | None:
        """Return the charge of a request of `size` bytes; None for a client without quotas."""


class ApiVersionHandler:
    """Decodes, serves and answers the requests of one version of one API. Created at the first request."""

    __slots__ = (
        "_is_sampled",
        "api",
        "decode",
        "encode",
        "fast_path",
        "handler",
        "is_charged",
        "is_observed",
        "requests",
        "tagged",
        "version",
    )

    def __init__(
        self,
        served: ServedApi,
        version: int,
        services: Mapping[str, object],
        guard: HandlerGuard | None = None,
        quotas: Quotas | None = None,
    ) -> None:
        """Raises CannotLoad, and MissingService if the process lacks a service that the handler declares."""
        implementation = served.load()
        self.api = api = implementation.api
        self.version = version
        handler = bind(implementation.handler, services)
        self.handler = guard.protect(api, handler) if guard is not None and served.is_guarded else handler
        self.fast_path = None
        if implementation.fast_path is not None:
            self.fast_path = bind(implementation.fast_path, services)(version)
        self.decode: Callable[[ReadBuffer, int], tuple[Struct, int]] = served.decoder(api, version)
        self.encode = _encoder(implementation, version)
        self.tagged = api.request_header_version(version) == 2
        #: The number of requests that have arrived.
        self.requests = 0
        self.is_charged = served.is_charged
        self._is_sampled = False
        #: Whether dispatch does more than serve a request: quotas, or a sample.
        self.is_observed = False
        self.observe(quotas)

    def observe(self, quotas: Quotas | None) -> None:
        """Note whether there are quotas."""
        self.is_observed = self._is_sampled or (quotas is not None and self.is_charged)

    def sample_next(self) -> None:
        """Let the sampler measure the next request."""
        self._is_sampled = self.is_observed = True

    def take_sample(self, quotas: Quotas | None) -> bool:
        """Return whether to measure this request; resets a pending sample."""
        sampled = self._is_sampled
        self._is_sampled = False
        self.observe(quotas)
        return sampled


def _encoder(implementation: Implementation, version: int) -> Encode:
    if implementation.encoder is not None:
        return implementation.encoder(version)
    return response_encoder(implementation.api, version)
