"""Broker: the parts that each broker has, and how it starts and stops. A node alone is a `MainProcess`.

Start: bind the ports first, so that a taken port stops the start before any file is touched. Then open the node's data,
create the parts that need it, and accept clients. Stop: accept no more clients, send the last answers, write everything
to disk, and mark the directories as clean.
"""

from __future__ import annotations

import asyncio
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from broker.access.quotas.quota_updates import enforce_quotas
from broker.external_readers.archives.following import follow_archives
from broker.external_readers.spark.following import follow_queries
from broker.maintenance.flush_durability import FlushDurability
from broker.maintenance.log_cleaner import Cleaner
from broker.maintenance.log_opening import LogOpening
from broker.maintenance.log_scheduler import Background
from broker.maintenance.move_services import MoveServices
from broker.maintenance.replica_moves import ReplicaMoves
from broker.network.listener import CannotBind, Listener
from broker.network.server import Server
from broker.observability.loop_watch import LoopWatch
from broker.observability.metrics.serving import bind_endpoint
from broker.process.descriptors import raise_limit, share_out
from broker.process.start_errors import CannotStart
from broker.process.state import BrokerState
from broker.replicas.append_scheduler import AppendScheduler
from broker.replicas.cordoned_dirs import mark_cordoned
from broker.replicas.fetch_attempt import FetchAttempt
from broker.replicas.fetch_session import FetchSessions
from broker.replicas.partitions import Partitions
from broker.replicas.time_look_ups import TimeLookUps
from broker.requests.advertised_endpoints import AdvertisedEndpoints
from broker.requests.broker_identity import BrokerIdentity
from broker.requests.dispatcher import Dispatcher
from broker.requests.lazy_imports import LazyImports
from broker.requests.served_api import ServedApi, discover
from broker.service_wiring import process_services, share_services, tier_of
from broker.services import MainServices, MemberServices, Services, ServiceTable, ShareServices
from broker.startup.missing_partitions import Missing
from config import BrokerConfig
from controller.metadata_log import MetadataLogDamaged
from runtime.clock import Clock
from runtime.gate import Gate
from runtime.process_pool import ProcessPool
from runtime.purgatory import Purgatory
from runtime.thread_pool import ThreadPool
from runtime.timers import Timers
from runtime.turn import Turn
from storage.errors import StorageError
from storage.log.directory import LogDirectory
from storage.log_manager import LogManager

if TYPE_CHECKING:
    from broker.access.authorization.guard import Guard
    from broker.automatic_topics import AutomaticTopics
    from broker.coordinators.share.dead_letters import LetterCounts
    from broker.coordinators.share.states import ShareStates
    from broker.coordinators.transaction.markers import PartitionMarkers
    from broker.coordinators.transaction.verifier import TransactionVerifier
    from broker.external_readers.spark.queries import SparkQueries
    from broker.maintenance.move_services import AssignFirst, MovablePartitions, Placements
    from broker.metadata_cache import MetadataCache
    from broker.metadata_publisher import MetadataPublisher
    from broker.observability.metrics.endpoint import Endpoint
    from broker.observability.metrics.observed import MainParts
    from broker.replicas.durability import Durability
    from broker.replicas.end_offsets import EndOffsets
    from broker.replicas.leader_reads import LeaderReads
    from broker.replicas.own_appends import OwnAppends, PartitionAppends
    from broker.replicas.remote_reads import RemoteReads
    from broker.replication.followed_log import LocalFollowedLog
    from broker.startup.opened_data import OpenedData
    from broker.tiering.tier import Tier
    from controller.quorum import FeatureSource

log = logging.getLogger(__name__)

# Processes that decompress batches: the loop uses one core, and more than a few processes gain nothing.
_WORKERS = max(1, min(4, (os.cpu_count() or 1) - 1))
# The longest that a shutdown waits for clients to read their last answers.
_LAST_ANSWERS_MS = 2_000
# With two threads, one slow TLS computation does not block the handshakes of other clients.
_HANDSHAKE_THREADS = 2


class Broker(ABC):
    """The process of a broker. Everything in it belongs to the event loop's thread.

    `start` sets the attributes that need the node's data: those that are declared here.
    """

    #: Creates the attempts of fetches.
    fetch_attempt: Callable[..., FetchAttempt] = FetchAttempt
    logs: LogManager
    directory_ids: Mapping[str, bytes]
    missing: Missing
    background: Background
    durability: Durability
    end_offsets: EndOffsets
    queries: SparkQueries | None
    opening: LogOpening
    cleaner: Cleaner
    partitions: Partitions
    fetch_sessions: FetchSessions
    moves: ReplicaMoves
    metadata: MetadataCache
    identity: BrokerIdentity
    publisher: MetadataPublisher
    topics: AutomaticTopics
    features: FeatureSource
    share_states: ShareStates
    services: Services
    verifier: TransactionVerifier
    markers: PartitionMarkers

    def __init__(
        self,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        *,
        clock: Clock | None = None,
        make_dispatcher: Callable[[Mapping[int, ServedApi]], Dispatcher] = Dispatcher,
    ) -> None:
        self.config = config
        self.loop = loop
        self.clock = clock or Clock()
        self.turn = Turn(loop.call_soon)
        self.timers = Timers(loop, self.clock)
        self.purgatory = Purgatory(self.timers, self.turn)
        self.dispatcher = make_dispatcher(self._served_apis())
        self.server = Server(loop, self.clock, self.turn, self.dispatcher)
        self.offload = ThreadPool(loop, config.get_int("num.io.threads"), self.server.queued)
        self.lazy_imports = LazyImports(self.dispatcher.served, self.offload, self.timers)
        self.dispatcher.load = self.lazy_imports.load
        #: Steps of TLS handshakes. Unauthenticated clients' work does not delay the data path, or count as requests.
        self.handshakes = ThreadPool(loop, _HANDSHAKE_THREADS, name="handshake")
        #: Looks up the addresses of hosts with quotas. A slow name server delays nothing else.
        self.dns_threads = ThreadPool(loop, 1, name="host-lookup")
        self.workers = ProcessPool(_WORKERS, loop)
        #: Limits conversions for consumers without record batches: each keeps an answer in memory while it waits.
        self.conversions = Gate(2 * _WORKERS)
        self.time_look_ups = TimeLookUps(self.workers, loop.call_soon)
        self.appends = AppendScheduler(self.workers, self.clock, self.offload, self.server.held, self.server.queued)
        self._descriptors = share_out(raise_limit())
        self.server.limits.max_descriptors = self._descriptors.connections
        self.guard: Guard | None = None
        self.loop_watch = LoopWatch(loop)
        self.state = BrokerState.STARTING
        #: By share group; of those with a dead-letter queue.
        self.dead_letter_counts: dict[str, LetterCounts] = {}
        self.endpoint: Endpoint | None = None
        #: None without remote.log.storage.system.enable.
        self.tier: Tier | None = None
        self._data: OpenedData | None = None
        self._stopping = False

    @property
    @abstractmethod
    def main_parts(self) -> MainParts:
        """The parts that metrics describe: the controller, the coordinators and the replicas."""

    # -- start ---------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the broker; it accepts clients last. Raises CannotStart."""
        try:
            self.endpoint = bind_endpoint(self)
            listeners = self._bind()
        except CannotBind as error:
            self._close_pools()
            raise CannotStart(str(error)) from None
        if self.endpoint is not None:
            self.endpoint.start()
        try:
            self._data = await self._load_data()
            self._wire()
            self.tier = tier_of(self)
            if self.tier is not None:
                self.fetch_attempt = self._tiered_attempts(self.tier.reader)
            self.identity = BrokerIdentity(self.metadata.cluster_id, self.partitions.node_id)
            self.services = process_services(self, self._endpoints())
            self.dispatcher.services = ServiceTable(self.services, self._own_services(), lambda: self.shares)
            await self._open(listeners)
            if self.tier is not None:
                self.tier.start()
            self.loop_watch.start()
            self.state = BrokerState.RUNNING
        except BaseException as error:
            await self._abandon(listeners)
            if isinstance(error, CannotBind | MetadataLogDamaged | StorageError):
                raise CannotStart(str(error)) from None
            if isinstance(error, OSError):
                raise CannotStart(f"{error.filename}: {error.strerror}" if error.filename else str(error)) from None
            raise

    def _tiered_attempts(self, reads: RemoteReads) -> Callable[..., FetchAttempt]:
        """Return what creates the attempts of fetches, which also read from remote storage."""
        from broker.tiering.reading.tiered_fetch import tiered

        return tiered(FetchAttempt, reads)

    def _served_apis(self) -> Mapping[int, ServedApi]:
        """The APIs that this process serves."""
        return discover(
            legacy=self.config.get_bool("pybroker.legacy.versions"),
            telemetry=bool(self.config.get_list("metrics.listeners")),
            unstable=self.config.get_bool("unstable.api.versions.enable"),
        )

    @abstractmethod
    def _bind(self) -> list[Listener]:
        """Bind the ports. Raises CannotBind."""

    async def _load_data(self) -> OpenedData:
        """Open the data, in a thread: a recovery may take long, and the loop must handle signals meanwhile."""
        return await self.loop.run_in_executor(None, self._open_data)

    @abstractmethod
    def _open_data(self) -> OpenedData:
        """Open the data; called in a thread. `_directory_failed` is called for directories that fail."""

    def _endpoints(self) -> AdvertisedEndpoints:
        """Return the addresses that clients get."""
        return AdvertisedEndpoints(self.config, self.metadata)

    @abstractmethod
    def _wire(self) -> None:
        """Create the parts that need the node's data: those of `_wire_data`, and the ones that make decisions."""

    @cached_property
    def shares(self) -> ShareServices:
        """The services of share groups, created for the first handler that needs one."""
        return share_services(self.services, self.share_states, lambda: self.own_appends, self.dead_letter_counts)

    @cached_property
    def partition_appends(self) -> PartitionAppends:
        """Appends of the broker's own batches to its own partitions; few brokers need it."""
        from broker.replicas.own_appends import PartitionAppends

        return PartitionAppends(self.partitions, self.appends, self.durability, self.clock)

    @property
    def own_appends(self) -> OwnAppends:
        """Appends of the broker's own batches to the partitions of all brokers."""
        return self.partition_appends

    @property
    def leader_reads(self) -> LeaderReads | None:
        """Reads of partitions that other brokers lead; None in a node alone."""
        return None

    def refused_logs(self) -> Sequence[LocalFollowedLog]:
        """Return the followed logs whose leaders have what they need in remote storage alone."""
        return ()

    @abstractmethod
    def _own_services(self) -> MainServices | MemberServices:
        """Return the services of this kind of process that handlers may need."""

    @abstractmethod
    async def _open(self, listeners: list[Listener]) -> None:
        """Start the parts, and accept clients, now or once the controllers let this broker serve."""

    def _wire_data(self, data: OpenedData) -> None:
        """Create the parts that serve partitions."""
        config, clock = self.config, self.clock
        self.logs = data.logs
        self.directory_ids = data.directory_ids
        self.missing = data.missing
        self.background = Background(data.logs, config, self.loop, self.timers, clock)
        self.durability = FlushDurability(self.background)
        holds = self.background.holds
        self.queries = follow_queries(config, holds, self.loop, self.timers)
        follow_archives(config, data.logs, holds, self.loop, self.timers)
        self.opening = LogOpening(data.logs, self.loop, self.timers)
        self.cleaner = Cleaner(data.logs, self.background, config, self.loop, self.timers, clock)
        self.partitions = Partitions(
            data.logs, config.node_id, clock, self.purgatory.check_soon, data.missing, self.opening.may_open
        )
        slots = config.get_int("max.incremental.fetch.session.cache.slots")
        self.fetch_sessions = FetchSessions(slots, self.partitions.topic_name, clock.monotonic_ms)
        mark_cordoned(config, data.logs)
        config.subscribe("num.io.threads", lambda _: self.offload.resize(config.get_int("num.io.threads")))

    def _wire_moves(
        self,
        placements: Placements,
        assign_first: AssignFirst | None = None,
        partitions: MovablePartitions | None = None,
    ) -> None:
        services = MoveServices(
            config=self.config,
            clock=self.clock,
            loop=self.loop,
            timers=self.timers,
            logs=self.logs,
            directory_ids=self.directory_ids,
            partitions=partitions or self.partitions,
            background=self.background,
            cleaner=self.cleaner,
            metadata=self.metadata,
            placements=placements,
            assign_first=assign_first,
        )
        self.moves = ReplicaMoves(services)

    def _enforce_quotas(self) -> None:
        enforce_quotas(self.config, self.metadata, self.clock, self.dispatcher, self.server, self.dns_threads)

    def _start_data(self) -> None:
        self.background.start()
        self.cleaner.start()
        self.moves.start()

    async def _abandon(self, listeners: list[Listener]) -> None:
        """Close everything that a failed start has opened."""
        for listener in listeners:
            listener.close()
        self.lazy_imports.stop()
        self.server.close()
        self.workers.close()
        if self._data is not None:
            await self._close_data(self._data)
        self._close_pools()

    # -- stop ----------------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Stop cleanly: refuse new clients, send last answers, write everything to disk and mark it as clean."""
        self._let_nobody_in()
        await self._give_last_answers()
        await self._close()

    def _let_nobody_in(self) -> None:
        self.state = BrokerState.SHUTTING_DOWN
        self.loop_watch.stop()
        self.server.stop_accepting()
        self.server.stop_receiving()
        self.lazy_imports.stop()

    async def _give_last_answers(self) -> None:
        """Answer waiting requests, and close all connections."""
        self.moves.close()
        self.opening.stop()
        self.purgatory.expire_all()
        deadline_ms = self.clock.monotonic_ms() + _LAST_ANSWERS_MS
        while self.server.busy and self.clock.monotonic_ms() < deadline_ms:
            await asyncio.sleep(0.002)
        self.server.close()
        self.workers.close()

    async def _close(self) -> None:
        assert self._data is not None
        await self._close_data(self._data)
        self._close_pools()

    async def _close_data(self, data: OpenedData) -> None:
        self._stopping = True
        if self.tier is not None:
            await self.tier.close()
        if hasattr(self, "moves"):  # the last of these parts
            self.publisher.close()
            self.cleaner.close()
            self.moves.close()
            self.opening.stop()
            self.background.stop()
            await asyncio.sleep(0)  # results of the thread are applied by calls on the loop
        # In a thread: a flush may take long, and the loop must handle a second signal meanwhile.
        await self.loop.run_in_executor(None, data.close, self.clock.now_ms())

    def _close_pools(self) -> None:
        self.handshakes.close()
        self.dns_threads.close()
        self.offload.close()
        if self.endpoint is not None:
            self.endpoint.close()

    # -- failures ------------------------------------------------------------------------------------------------------

    def _directory_failed(self, directory: LogDirectory) -> None:
        """React to a log directory that has just gone offline."""
        log.critical("Log directory %s is offline: %s", directory.path, directory.failure)
        if hasattr(self, "publisher") and not self._stopping:  # else the start handles it once all parts exist
            self.loop.call_soon(self._go_on_without, directory)  # after the code that found the failure

    @abstractmethod
    def _go_on_without(self, directory: LogDirectory) -> None:
        """Serve the other directories."""
