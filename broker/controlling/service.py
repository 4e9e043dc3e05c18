"""The controller of a cluster as a service: its data, its listeners, and what it does by itself.

Start: bind the ports, so that the advertised ports are known; lock and load the metadata log, and lead it; serve. A
controller alone has nothing else (broker/controlling/process.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from broker.access.authentication.delegation_tokens import DelegationTokens
from broker.access.authentication.listeners import authenticate
from broker.access.authentication.services import AuthenticationServices
from broker.access.authorization.selection import guard_of
from broker.access.quotas.quota_updates import enforce_quotas
from broker.controlling.apis import controller_apis
from broker.controlling.data import open_controller_data
from broker.controlling.endpoints import controller_endpoints
from broker.controlling.enveloped_requests import EnvelopedRequests
from broker.controlling.metadata_reads import MetadataReads
from broker.controlling.observers import Observers
from broker.controlling.publisher import ControllerPublisher
from broker.controlling.raft_leader import RaftLeader
from broker.metadata_cache import MetadataCache
from broker.network.listener import Listener
from broker.network.server import Server
from broker.network.settings import bind_listeners, configure
from broker.requests.broker_identity import BrokerIdentity
from broker.requests.dispatcher import Dispatcher
from broker.requests.lazy_imports import load_api
from broker.requests.served_api import ServedApi
from controller.cluster_controller import ClusterController
from controller.metadata_retention import MetadataRetention
from controller.quorum import MetadataQuorum
from controller.running_time import INTERVAL_MS, RunningTime
from metadata.framing import new_record
from protocol.messages.cluster_metadata import NoOpRecord
from runtime.clock import Clock
from runtime.deferred import Deferred, outcome, settled
from runtime.thread_pool import ThreadPool
from runtime.timers import Timer, Timers
from runtime.turn import Turn

if TYPE_CHECKING:
    from broker.observability.metrics.endpoint import Endpoint as MetricsEndpoint
    from config import BrokerConfig
    from controller.metadata_log import MetadataLog
    from metadata.image import Endpoint, MetadataImage
    from storage.log.directory import LogDirectory

log = logging.getLogger(__name__)

_HANDSHAKE_THREADS = 2
# The longest that a stop waits for brokers to read their last answers.
_LAST_ANSWERS_MS = 2_000
# An observer that has not fetched for so long no longer observes: it asks at least twice a second.
_OBSERVES_MS = 10_000


class OpenedController(Protocol):
    """The metadata log that this controller leads, and the ids of the directories of its node by path."""

    @property
    def cluster_id(self) -> str: ...

    @property
    def directory_ids(self) -> Mapping[str, bytes]: ...

    @property
    def metadata_log(self) -> MetadataLog: ...

    @property
    def image(self) -> MetadataImage: ...

    def close(self, now_ms: int) -> None:
        """Close what the service has opened. Blocks."""


OpenData = Callable[["Sequence[Endpoint]"], OpenedController]


class ControllerService:
    """The active controller and its listeners. It calls `on_fatal(reason)` when it cannot go on."""

    data: OpenedController
    controller: ClusterController
    reads: MetadataReads
    metadata: MetadataCache
    quorum: MetadataQuorum
    #: The addresses of the controller listeners for other nodes.
    endpoints: Sequence[Endpoint]

    def __init__(
        self,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        on_fatal: Callable[[str], None],
        open_data: OpenData | None = None,
        make_dispatcher: Callable[[Mapping[int, ServedApi]], Dispatcher] = Dispatcher,
    ) -> None:
        self._config = config
        self._loop = loop
        self._clock = clock
        self._on_fatal = on_fatal
        self._open_data = open_data or self._open_own_data
        self.turn = Turn(loop.call_soon)
        self.timers = Timers(loop, clock)
        served = controller_apis(unstable=config.get_bool("unstable.api.versions.enable"))
        self.dispatcher = make_dispatcher(served)
        self.server = Server(loop, clock, self.turn, self.dispatcher)
        self.offload = ThreadPool(loop, config.get_int("num.io.threads"), self.server.queued)
        self._handshakes = ThreadPool(loop, _HANDSHAKE_THREADS, name="handshake")
        self._dns_threads = ThreadPool(loop, 1, name="host-lookup")
        self.dispatcher.load = self._load
        self._listeners: list[Listener] = []
        self._tick_timer: Timer | None = None
        self._idle_timer: Timer | None = None
        self._is_closed = False
        self.is_open = False
        self.endpoint: MetricsEndpoint | None = None

    def _load(self, served: ServedApi) -> Deferred[None]:
        return self.offload(load_api, served)

    @property
    def addresses(self) -> list[str]:
        """The addresses of the controller listeners, for log lines."""
        return [f"{each.name}://{address}" for each in self.server.listeners for address in each.addresses]

    # -- start ---------------------------------------------------------------------------------------------------------

    def bind(self) -> None:
        """Bind the ports. Raises CannotBind."""
        self._listeners = bind_listeners(self._config, self._clock, configured=self._config.controller_listeners)
        if self._config.is_controller and self._config.get_list("metrics.listeners"):  # a broker has its own
            from broker.controlling.metrics import bind_endpoint  # most configurations have none

            self.endpoint = bind_endpoint(self._config, self._loop, self, self._clock)

    async def start(self) -> None:
        """Load and lead the metadata log, and serve. Raises the errors of `open_controller_data`, and CannotBind."""
        in_thread = partial(self._loop.run_in_executor, None)
        if self.endpoint is not None:
            self.endpoint.start()
        endpoints = self.endpoints = await in_thread(controller_endpoints, self._config, self._listeners)
        self.data = await in_thread(self._open_data, endpoints)
        self._wire(endpoints)
        await outcome(self.controller.sync_now())
        configure(self.server, self._config, self._listeners)
        authenticate(self._listeners, self._authentication_services())
        self.server.open(self._listeners)
        self.is_open = True
        self._delegation_tokens.start()
        self._tick()
        self._stay_current()

    def _open_own_data(self, endpoints: Sequence[Endpoint]) -> OpenedController:
        return open_controller_data(self._config, endpoints, self._clock.now_ms(), self._directory_failed)

    def _wire(self, endpoints: Sequence[Endpoint]) -> None:
        config, data, clock = self._config, self.data, self._clock
        self._running = RunningTime(clock.monotonic_ms)
        self.controller = controller = ClusterController(
            config,
            data.cluster_id,
            data.metadata_log,
            data.image,
            self._sync_metadata,
            clock.now_ms,
            self._running.ms,
            self._loop.call_soon,
        )
        self.reads = MetadataReads(data.metadata_log, self.timers)
        self.metadata = metadata = MetadataCache(data.cluster_id, data.image)
        publisher = ControllerPublisher(config, metadata)
        publisher.apply_settings()
        controller.subscribe(publisher)
        self._observers = Observers(clock.now_ms)
        guard = self.dispatcher.guard = guard_of(config, metadata)
        enforce_quotas(config, metadata, clock, self.dispatcher, self.server, self._dns_threads)
        self._delegation_tokens = DelegationTokens(config, metadata, controller, clock, self.timers)
        self.quorum = quorum = MetadataQuorum(
            config, data.metadata_log, data.directory_ids, controller, clock.now_ms, endpoints
        )
        self.retention = MetadataRetention(data.metadata_log, data.image, config, self.offload, clock.now_ms)
        self.dispatcher.services = {
            "config": config,
            "clock": clock,
            "timers": self.timers,
            "offload": self.offload,
            "dns_threads": self._dns_threads,
            "served_apis": self.dispatcher.served,
            "identity": BrokerIdentity(data.cluster_id, config.node_id),
            "guard": guard,
            "metadata": metadata,
            "features": quorum,
            "controller": controller,
            "quorum": quorum,
            "record_cordoned": lambda: None,  # brokers report their cordoned directories themselves
            "delegation_tokens": self._delegation_tokens,
            "leader": RaftLeader(config.node_id, data.cluster_id, data.metadata_log, endpoints),
            "reads": self.reads,
            "observers": self._observers,
            "enveloped": EnvelopedRequests(self.dispatcher),
        }

    def _authentication_services(self) -> AuthenticationServices:
        return AuthenticationServices(
            config=self._config,
            loop=self._loop,
            clock=self._clock,
            timers=self.timers,
            offload=self.offload,
            handshakes=self._handshakes,
            dispatcher=self.dispatcher,
            metadata=self.metadata,
            delegation_tokens=self._delegation_tokens,
        )

    # -- what it does by itself ----------------------------------------------------------------------------------------

    def _sync_metadata(self) -> Deferred[None]:
        synced = self.data.metadata_log.sync(self.offload, self._clock.now_ms(), self.timers.call_later)
        synced.add_done_callback(self._on_synced)
        return synced

    def _on_synced(self, synced: Deferred[None]) -> None:
        self.reads.advance()  # before the answers that wait for this sync: brokers know what a client is answered
        if self.is_open:
            self.retention.check()

    def _tick(self) -> None:
        """Fence brokers whose session has ended, and elect leaders, when that is due."""
        if not self._is_closed:
            self._running.note()
            self._tick_timer = self.timers.call_later(min(INTERVAL_MS, self.controller.tick()), self._tick)

    def _stay_current(self) -> None:
        """Write a record that changes nothing while brokers observe, by which they see that they are current."""
        interval_ms = self._config.get_int("metadata.max.idle.interval.ms")
        if self._is_closed or interval_ms <= 0:
            return
        if self._observers.have_fetched_within(_OBSERVES_MS):
            record = new_record(self.data.image.metadata_version, NoOpRecord)
            self.controller.submit([record], of_request=False)
        self._idle_timer = self.timers.call_later(interval_ms, self._stay_current)

    def _directory_failed(self, directory: LogDirectory) -> None:
        log.critical("Log directory %s is offline: %s", directory.path, directory.failure)
        if not self._is_closed:
            self._loop.call_soon_threadsafe(self._on_fatal, "the directory of the metadata log is offline")

    # -- stop ----------------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Answer what waits, and close everything."""
        self._end_timers()
        self.server.stop_accepting()
        self.server.stop_receiving()
        if self.is_open:
            self.reads.close()
            deadline_ms = self._clock.monotonic_ms() + _LAST_ANSWERS_MS
            while self.server.busy and self._clock.monotonic_ms() < deadline_ms:
                await asyncio.sleep(0.002)
        await self.close()

    async def close(self) -> None:
        """Close everything at once, also after a start that has failed."""
        self._end_timers()
        self.is_open = False
        for listener in self._listeners:
            listener.close()
        self.server.close()
        if self.endpoint is not None:
            self.endpoint.close()
        if hasattr(self, "controller"):
            self.controller.close()
            if self.data.metadata_log.partition_log.directory.is_online:
                await outcome(settled([self.controller.sync_now()]))
        if hasattr(self, "data"):
            await self._loop.run_in_executor(None, self.data.close, self._clock.now_ms())
        for pool in (self._handshakes, self._dns_threads, self.offload):
            pool.close()

    def _end_timers(self) -> None:
        self._is_closed = True
        for timer in (self._tick_timer, self._idle_timer):
            if timer is not None:
                timer.cancel()
