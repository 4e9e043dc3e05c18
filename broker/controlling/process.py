"""The process of a controller that is no broker (process.roles=controller)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from broker.controlling.service import ControllerService
from broker.metadata_cache import MetadataCache
from broker.network.listener import CannotBind
from broker.network.server import Server
from broker.process.descriptors import raise_limit, share_out
from broker.process.start_errors import CannotStart
from broker.requests.dispatcher import Dispatcher
from broker.requests.served_api import ServedApi
from config import BrokerConfig
from controller.metadata_log import MetadataLogDamaged
from runtime.clock import Clock
from runtime.timers import Timers
from storage.errors import StorageError

if TYPE_CHECKING:
    from broker.observability.metrics.endpoint import Endpoint as MetricsEndpoint


def _nothing() -> None:
    """Do nothing."""


class LateParts:
    """A controller opens and loads nothing later but the modules of rare requests."""

    on_opened: Callable[[], object] = staticmethod(_nothing)
    on_done: Callable[[], object] = staticmethod(_nothing)


class ControllerProcess:
    """The process that a user starts. It calls `on_fatal(reason)` when it cannot go on."""

    #: A controller has no web console.
    console = None

    def __init__(
        self,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        *,
        clock: Clock | None = None,
        make_dispatcher: Callable[[Mapping[int, ServedApi]], Dispatcher] = Dispatcher,
        on_fatal: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self._service = ControllerService(config, loop, clock or Clock(), on_fatal, make_dispatcher=make_dispatcher)
        self._service.server.limits.max_descriptors = share_out(raise_limit()).connections
        self.opening = self.lazy_imports = LateParts()

    @property
    def addresses(self) -> list[str]:
        """The addresses on which the controller listens, for log lines."""
        return self._service.addresses

    @property
    def endpoint(self) -> MetricsEndpoint | None:
        """The endpoint for metrics, if it is configured."""
        return self._service.endpoint

    @property
    def server(self) -> Server:
        return self._service.server

    @property
    def dispatcher(self) -> Dispatcher:
        return self._service.dispatcher

    @property
    def timers(self) -> Timers:
        return self._service.timers

    @property
    def metadata(self) -> MetadataCache:
        return self._service.metadata

    def interrupt(self) -> None:
        """Do nothing: the start waits for no other process."""

    async def start(self) -> None:
        """Start the controller; it accepts brokers last. Raises CannotStart."""
        service = self._service
        try:
            service.bind()
            await service.start()
        except BaseException as error:
            await service.close()
            if isinstance(error, CannotBind | MetadataLogDamaged | StorageError):
                raise CannotStart(str(error)) from None
            if isinstance(error, OSError):
                raise CannotStart(f"{error.filename}: {error.strerror}" if error.filename else str(error)) from None
            raise

    async def stop(self) -> None:
        """Stop cleanly: brokers go on without a controller until one is back."""
        await self._service.stop()
