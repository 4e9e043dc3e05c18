"""Broker: the wiring of one broker process. What handlers reach through `ctx.broker` are its attributes.

Up: ports bound (so that a port that is taken stops the start before any file is touched), the node's data opened,
partitions hosted, groups loaded, declared topics made, clients let in. Down: nobody new, last answers, everything on
disk, directories marked clean.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from itertools import chain
from typing import TYPE_CHECKING

from broker.apis import Row, discover
from broker.appends import Appends
from broker.archives.following import follow_archives
from broker.authentication.listeners import authenticate
from broker.authorization.selection import guard_of
from broker.background import Background
from broker.cleaner import Cleaner
from broker.client_metrics import ClientMetrics
from broker.clock import Clock
from broker.config import BrokerConfig
from broker.controller import Controller
from broker.cordons import mark_cordoned, record_cordoned
from broker.deferred import Deferred, outcome
from broker.delegation_tokens import DelegationTokens
from broker.descriptors import raise_limit, share_out
from broker.dispatch import Dispatcher
from broker.fetch_session import FetchSessions
from broker.gate import Gate
from broker.groups import Groups
from broker.hosted_console import bind_console
from broker.loading import Loading
from broker.log_opening import LogOpening
from broker.loop_watch import LoopWatch
from broker.metadata_log import MetadataLogDamaged
from broker.metadata_retention import MetadataRetention
from broker.metrics.serving import bind_endpoint
from broker.missing import Missing
from broker.network.listener import CannotBind, Listener
from broker.network.server import Server
from broker.network.settings import bind_listeners, configure
from broker.node import Node, open_node
from broker.offload import Offload
from broker.partitions import Partitions
from broker.producer_ids import ProducerIds
from broker.purgatory import Purgatory
from broker.quorum import MetadataQuorum
from broker.quotas.enforcement import enforce_quotas
from broker.replica_moves import ReplicaMoves
from broker.share_state import ShareStates
from broker.shares.partitions import SharePartitions
from broker.spark.following import follow_queries
from broker.state import BrokerState
from broker.timers import Timers
from broker.transactions import Transactions
from broker.turn import Turn
from broker.workers import Workers
from storage.errors import StorageError
from storage.log.directory import LogDirectory
from storage.log_manager import LogManager

if TYPE_CHECKING:
    from broker.authorization.guard import Guard
    from broker.console import Console
    from broker.cores.crew import Crew
    from broker.cores.remote import RemoteTransactions
    from broker.metrics.endpoint import Endpoint
    from broker.spark.queries import SparkQueries

log = logging.getLogger(__name__)

# Processes for batches that have to be opened: one core is the loop's, and more than a few bring no more.
_WORKERS = max(1, min(4, (os.cpu_count() or 1) - 1))
# A shutdown waits no longer than this for clients to take their last answers.
_LAST_ANSWERS_MS = 2_000
# One is left for others while a client's handshake has OpenSSL compute for long.
_HANDSHAKE_THREADS = 2


class CannotStart(Exception):
    """Why a broker can not start, in one line for people. Nothing of it is left open."""


class StartInterrupted(CannotStart):
    """Nobody wants it to start any more."""


class Broker:
    """One broker. Everything in it belongs to the event loop's thread.

    `start` sets the attributes that stand on the node's data: those that are declared here. `on_fatal(reason)` is
    called when nothing is left that could be served.
    """

    number = 0  # among the workers: 0 is the owner
    logs: LogManager
    controller: Controller
    quorum: MetadataQuorum
    client_metrics: ClientMetrics
    partitions: Partitions
    metadata_retention: MetadataRetention
    producer_ids: ProducerIds
    directory_ids: Mapping[str, bytes]
    moves: ReplicaMoves
    background: Background
    opening: LogOpening
    queries: SparkQueries | None
    cleaner: Cleaner
    delegation_tokens: DelegationTokens
    fetch_sessions: FetchSessions
    groups: Groups
    share_states: ShareStates
    share_partitions: SharePartitions
    transactions: Transactions
    missing: Missing

    def __init__(
        self,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        *,
        clock: Clock | None = None,
        make_dispatcher: Callable[[Broker, Mapping[int, Row]], Dispatcher] = Dispatcher,
        on_fatal: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self.config = config
        self.loop = loop
        self.clock = clock or Clock()
        self.turn = Turn(loop.call_soon)
        self.timers = Timers(loop, self.clock)
        self.purgatory = Purgatory(self.timers, self.turn)
        self.dispatcher = make_dispatcher(self, self._rows())
        self.server = Server(loop, self.clock, self.turn, self.dispatcher)
        self.offload = Offload(loop, config.get_int("num.io.threads"), self.server.queued)
        self.loading = Loading(self.dispatcher.rows, self.offload, self.timers)
        #: Steps of TLS handshakes: what strangers have computed neither delays the data path nor counts as requests.
        self.handshakes = Offload(loop, _HANDSHAKE_THREADS, name="handshake")
        #: Addresses of hosts that have quotas: a name server that does not answer holds up nothing else.
        self.lookups = Offload(loop, 1, name="host-lookup")
        self.workers = Workers(_WORKERS, loop)
        #: Answers for consumers that know no record batches: as many as keep the workers busy have records in memory.
        self.conversions = Gate(2 * _WORKERS)
        self.appends = Appends(self.workers, self.clock, self.offload, self.server.held, self.server.queued)
        self._descriptors = share_out(raise_limit())
        self.server.limits.max_descriptors = self._descriptors.connections
        #: The other workers, and the ports of all by listener, where there are several.
        self.crew: Crew | None = None
        self.ports: Mapping[str, tuple[int, ...]] = {}
        #: The transaction coordinator, where another process has it: then there are no `transactions` here.
        self.remote_transactions: RemoteTransactions | None = None
        self.guard: Guard | None = None
        self.loop_watch = LoopWatch(loop)
        self.state = BrokerState.STARTING
        self.endpoint: Endpoint | None = None
        self.console: Console | None = None
        self._on_fatal = on_fatal
        self._node: Node | None = None
        self._stopping = False

    @property
    def addresses(self) -> list[str]:
        """Where it listens, for people."""
        others = self.crew.listeners if self.crew is not None else ()
        return [f"{each.name}://{address}" for each in (*self.server.listeners, *others) for address in each.addresses]

    # -- up ------------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Come up; clients are let in last. Raises CannotStart."""
        try:
            self.endpoint = bind_endpoint(self)
            self.console = bind_console(self)
            listeners = self._bind()
        except CannotBind as error:
            self._close_pools()
            raise CannotStart(str(error)) from None
        if self.endpoint is not None:
            self.endpoint.start()
        try:
            # In a thread: a recovery may take its time, and signals are to be heard meanwhile.
            self._node = await self.loop.run_in_executor(None, self._open_node)
            self._check_ids(self._node)
            self._wire(self._node)
            await self._open(listeners)
            self.loop_watch.start()
            self.state = BrokerState.RUNNING
            if self.console is not None:
                self.console.start(self)
        except BaseException as error:
            await self._abandon(listeners)
            if isinstance(error, CannotBind | MetadataLogDamaged | StorageError):
                raise CannotStart(str(error)) from None
            if isinstance(error, OSError):
                raise CannotStart(f"{error.filename}: {error.strerror}" if error.filename else str(error)) from None
            raise

    def interrupt(self) -> None:
        """Have a start that waits for other workers raise StartInterrupted; nothing where none is waited for."""
        if self.crew is not None:
            self.crew.interrupt()

    def _rows(self) -> Mapping[int, Row]:
        has_metrics = bool(self.config.get_list("metrics.listeners"))
        return discover(legacy=self.config.get_bool("pybroker.legacy.versions"), telemetry=has_metrics)

    def _bind(self) -> list[Listener]:
        """Take the ports, of all workers. Raises CannotBind."""
        listeners = bind_listeners(self.config, self.clock)
        if self.config.num_workers > 1:
            others: list[list[Listener]] = []
            try:
                for worker in range(1, self.config.num_workers):
                    others.append(bind_listeners(self.config, self.clock, worker))
            except CannotBind:
                for listener in chain(listeners, *others):
                    listener.close()
                raise
            from broker.cores.crew import Crew  # with one worker nothing of it is needed

            alike = zip(listeners, *others, strict=True)
            self.ports = {each[0].name: tuple(listener.port for listener in each) for each in alike}
            self.crew = Crew(self, others)
        return listeners

    def _open_node(self) -> Node:
        return open_node(
            self.config,
            self.clock.now_ms(),
            max_open_files=self._descriptors.log_files,
            on_failure=self._directory_failed,
        )

    def _check_ids(self, node: Node) -> None:
        """Raises CannotStart where another broker has an id under which a worker is to be seen."""
        for node_id in node.image.brokers:
            if node_id != self.config.node_id and self.config.is_own_id(node_id):
                raise CannotStart(f"num.workers: the metadata has another broker {node_id}: clients would mistake them")

    def _wire(self, node: Node) -> None:
        """Make the rooms that stand on the node's data."""
        config, clock = self.config, self.clock
        self._wire_data(node, config.node_id)
        self.controller = Controller(
            config,
            node.cluster_id,
            node.metadata_log,
            node.image,
            self.partitions,
            self._sync_metadata,
            clock.now_ms,
            node.directory_ids,
            self.loop.call_soon,
        )
        self.guard = self.dispatcher.guard = guard_of(config, self.controller)
        enforce_quotas(self, node.image)
        self.delegation_tokens = DelegationTokens(config, self.controller, clock, self.timers)
        self.quorum = MetadataQuorum(config, node.metadata_log, node.directory_ids, self.controller, clock.now_ms)
        self.client_metrics = ClientMetrics(config, self.controller, clock.monotonic_ms)
        self.metadata_retention = MetadataRetention(node.metadata_log, node.image, config, self.offload, clock.now_ms)
        self.producer_ids = ProducerIds(self.controller.allocate_producer_ids)
        self.share_states = ShareStates(self)
        self.share_partitions = SharePartitions(self)
        self.groups = Groups(self)
        self.transactions = Transactions(self)

    def _wire_data(self, node: Node, seen_id: int) -> None:
        """Those that serve partitions; clients see them at the broker `seen_id`."""
        config, clock = self.config, self.clock
        self.logs = node.logs
        self.directory_ids = node.directory_ids
        self.missing = node.missing
        self.background = Background(node.logs, config, self.loop, self.timers, clock)
        self.queries = follow_queries(self)
        follow_archives(self)
        self.opening = LogOpening(node.logs, self.loop, self.timers)
        self.cleaner = Cleaner(node.logs, self.background, config, self.loop, self.timers, clock)
        self.partitions = Partitions(
            node.logs, seen_id, clock, self.purgatory.check_soon, node.missing, self.opening.may_open
        )
        slots = config.get_int("max.incremental.fetch.session.cache.slots")
        self.fetch_sessions = FetchSessions(slots, self.partitions.topic_name, clock.monotonic_ms)
        self.moves = ReplicaMoves(self)
        mark_cordoned(config, node.logs)
        config.subscribe("num.io.threads", lambda _: self.offload.resize(config.get_int("num.io.threads")))

    async def _open(self, listeners: list[Listener]) -> None:
        offline = [each for each in self.logs.directories if not each.is_online]
        for directory in offline:
            self.controller.directory_failed(directory.path)
        self.controller.host_all()
        record_cordoned(self)
        self.partitions.tell_offline()
        if len(offline) == len(self.logs.directories):
            self._on_fatal("all log directories are offline")
        self._start_data()
        if self.crew is not None:
            assert self._node is not None
            await self.crew.start(self._node.deleted_topics)
        self.share_states.start()
        self.groups.start()
        self.transactions.start()
        self.delegation_tokens.start()
        await outcome(self.controller.create_declared_topics())
        configure(self.server, self.config, listeners)
        authenticate(listeners, self)
        if self.crew is not None:
            self.crew.queue(self.server.backlog)
        self.loading.start()
        self.server.open(listeners)
        self.opening.start()
        if self.crew is not None:
            self.crew.open()

    def _start_data(self) -> None:
        self.background.start()
        self.cleaner.start()
        self.moves.start()

    def _sync_metadata(self) -> Deferred[None]:
        """Not by the background thread: it may have a thousand new partitions' files to force to the disk first."""
        assert self._node is not None
        synced = self._node.metadata_log.sync(self.offload, self.clock.now_ms(), self.timers.call_later)
        synced.add_done_callback(lambda _: self.metadata_retention.check())
        return synced

    async def _abandon(self, listeners: list[Listener]) -> None:
        """Close what a start that failed has opened."""
        for listener in listeners:
            listener.close()
        if self.crew is not None:
            self.crew.close()
        self.loading.stop()
        self.server.close()
        self.workers.close()
        if self._node is not None:
            await self._close_data(self._node, mark_clean=self.crew is None)
        self._close_pools()

    # -- down ----------------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Go down in good order: nobody new, last answers, everything on disk and marked clean."""
        self.state = BrokerState.SHUTTING_DOWN
        if self.console is not None:
            self.console.end()
        self.loop_watch.stop()
        self.server.stop_accepting()
        self.server.stop_receiving()
        crew = self.loop.create_task(self.crew.stop()) if self.crew is not None else None
        self.loading.stop()
        self._stop_coordinators()
        self.moves.close()
        self.opening.stop()
        self.purgatory.expire_all()
        deadline_ms = self.clock.monotonic_ms() + _LAST_ANSWERS_MS
        while self.server.busy and self.clock.monotonic_ms() < deadline_ms:
            await asyncio.sleep(0.002)
        self.server.close()
        self.workers.close()
        are_clean = True
        if self.crew is not None and crew is not None:
            are_clean = await crew
            self.crew.close()
        assert self._node is not None
        await self._close_data(self._node, mark_clean=are_clean)
        self._close_pools()

    def _stop_coordinators(self) -> None:
        self.transactions.stop()
        self.groups.stop()
        self.share_states.stop()

    async def _close_data(self, node: Node, *, mark_clean: bool) -> None:
        self._stopping = True
        if hasattr(self, "background"):
            self.cleaner.close()
            self.moves.close()
            self.opening.stop()
            self.background.stop()
            await asyncio.sleep(0)  # what its thread has done is applied by calls on the loop
        # In a thread: a flush may take its time, and a second signal is to be heard meanwhile.
        await self.loop.run_in_executor(None, node.close, self.clock.now_ms(), mark_clean)

    def _close_pools(self) -> None:
        self.handshakes.close()
        self.lookups.close()
        self.offload.close()
        if self.endpoint is not None:
            self.endpoint.close()
        if self.console is not None:
            self.console.close()

    # -- failures ------------------------------------------------------------------------------------------------------

    def _directory_failed(self, directory: LogDirectory) -> None:
        """A log directory is offline, as somebody has just found."""
        log.critical("Log directory %s is offline: %s", directory.path, directory.failure)
        if hasattr(self, "controller") and not self._stopping:  # else the start comes back to it once all is wired
            self.loop.call_soon(self._go_on_without, directory)

    def fail_directory(self, path: str, reason: str) -> None:
        """Take a log directory offline that has failed for another process of this broker."""
        for directory in self.logs.directories:
            if directory.path == path:
                directory.fail(reason)

    def _go_on_without(self, directory: LogDirectory) -> None:
        """Serve the others; end when it was the last one, as Apache Kafka does.

        In a turn of its own: whoever ran into the failure is done by then.
        """
        for partition in self.partitions.take_offline(directory):
            self.groups.partition_lost(partition)
            self.share_states.partition_lost(partition)
            self.transactions.partition_lost(partition)
        self.controller.directory_failed(directory.path)
        if self.crew is not None:
            self.crew.tell_failure(directory)
        if not any(each.is_online for each in self.logs.directories):
            self._on_fatal("all log directories are offline")
