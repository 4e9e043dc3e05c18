"""The process that a user starts: it has the controller and the coordinators, and runs the web console.

With several workers it is number 0, and supervises the others.
"""

from __future__ import annotations

from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from broker.access.authentication.delegation_tokens import DelegationTokens
from broker.access.authorization.selection import guard_of
from broker.automatic_topics import AutomaticTopics
from broker.console.hosted import bind_console
from broker.coordinator_process import CoordinatorProcess
from broker.coordinators.transaction.markers import MarkerWriter
from broker.coordinators.transaction.producer_ids import ProducerIds
from broker.metadata_cache import MetadataCache
from broker.metadata_publisher import MetadataPublisher
from broker.network.listener import CannotBind, Listener
from broker.network.settings import bind_listeners
from broker.observability.telemetry.subscriptions import ClientMetrics
from broker.process.start_errors import CannotStart
from broker.replicas.cordoned_dirs import CordonRecorder
from broker.services import MainServices, ShareServices
from broker.startup.node import Node, open_node
from controller.controller import Controller
from controller.metadata_retention import MetadataRetention
from controller.quorum import MetadataQuorum
from runtime.deferred import Deferred, outcome
from storage.log.directory import LogDirectory

if TYPE_CHECKING:
    from broker.coordinators.share.own_appends import OwnAppends
    from broker.observability.metrics.observed import MainParts
    from broker.workers.supervisor import WorkerSupervisor


class MainProcess(CoordinatorProcess):
    """The process with number 0. It calls `on_fatal(reason)` when no log directory works any more."""

    _supervisor: WorkerSupervisor | None = None

    @property
    def supervisor(self) -> WorkerSupervisor | None:
        return self._supervisor

    @property
    def main_parts(self) -> MainParts:
        from broker.observability.metrics.observed import MainParts  # loaded only with metrics

        return MainParts(
            controller=self.controller,
            quorum=self.quorum,
            groups=self.groups,
            transactions=self.transactions,
            client_metrics=self.client_metrics,
        )

    @property
    def addresses(self) -> list[str]:
        others = self._supervisor.listeners if self._supervisor is not None else ()
        return super().addresses + [f"{each.name}://{address}" for each in others for address in each.addresses]

    # -- start ---------------------------------------------------------------------------------------------------------

    def interrupt(self) -> None:
        if self._supervisor is not None:
            self._supervisor.interrupt()

    def _bind(self) -> list[Listener]:
        """Bind the ports of all workers."""
        self.console = bind_console(self.config)
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
            from broker.workers.supervisor import WorkerSupervisor  # not needed with one worker

            alike = zip(listeners, *others, strict=True)
            self.ports = {each[0].name: tuple(listener.port for listener in each) for each in alike}
            self._supervisor = WorkerSupervisor(others)
        return listeners

    def _open_data(self) -> Node:
        self._node = open_node(
            self.config,
            self.clock.now_ms(),
            max_open_files=self._descriptors.log_files,
            on_failure=self._directory_failed,
        )
        return self._node

    def _wire(self) -> None:
        node = self._node
        self._check_ids(node)
        config, clock = self.config, self.clock
        self._wire_data(node, config.node_id)
        self.controller = Controller(
            config,
            node.cluster_id,
            node.metadata_log,
            node.image,
            self._sync_metadata,
            clock.now_ms,
        )
        self.metadata = MetadataCache(node.cluster_id, node.image)
        self.publisher = MetadataPublisher(
            config, self.metadata, self.partitions, self.controller, node.directory_ids, self.loop.call_soon
        )
        self._wire_moves(self.controller)
        self.controller.subscribe(self.publisher)
        self.topics = AutomaticTopics(self.metadata, self.publisher, self.controller, self.controller.when_published)
        self.guard = self.dispatcher.guard = guard_of(config, self.metadata)
        self._enforce_quotas()
        self.delegation_tokens = DelegationTokens(config, self.metadata, self.controller, clock, self.timers)
        self.quorum = self.features = MetadataQuorum(
            config, node.metadata_log, node.directory_ids, self.controller, clock.now_ms
        )
        self.client_metrics = ClientMetrics(config, self.metadata, clock.monotonic_ms)
        self.metadata_retention = MetadataRetention(node.metadata_log, node.image, config, self.offload, clock.now_ms)
        self.producer_ids = ProducerIds(self.controller.allocate_producer_ids)
        self._cordons = CordonRecorder(config, self.logs, self.directory_ids, self.controller, self.loop.call_soon)
        self._wire_coordinators(self.controller)
        if self._supervisor is not None:
            from broker.workers.end_offsets import WorkerEndOffsets

            self.end_offsets = WorkerEndOffsets(self.partitions, self._supervisor)
            self._attach_workers(self._supervisor)

    def _marker_writer(self) -> MarkerWriter:
        if self._supervisor is None:
            return self.markers
        from broker.workers.markers import WorkerMarkers

        return WorkerMarkers(self.markers, self.partitions, self._supervisor)

    def _attach_workers(self, supervisor: WorkerSupervisor) -> None:
        from broker.workers.backend import WorkerBackend

        backend = WorkerBackend(
            config=self.config,
            loop=self.loop,
            timers=self.timers,
            ports=self.ports,
            controller=self.controller,
            metadata=self.metadata,
            quorum=self.quorum,
            logs=self.logs,
            directory_ids=self.directory_ids,
            missing=self.missing,
            dispatcher=self.dispatcher,
            verifier=self.verifier,
            share_states=self.share_coordinator,
            transactions=self.transactions,
            own_appends=lambda: self.own_appends,
            fail_directory=self.fail_directory,
        )
        supervisor.attach(backend)

    @cached_property
    def own_appends(self) -> OwnAppends:
        if self._supervisor is None:
            return self.partition_appends
        from broker.workers.own_appends import WorkerAppends

        return WorkerAppends(self.partition_appends, self.partitions, self._supervisor)

    @cached_property
    def shares(self) -> ShareServices:
        shares = super().shares
        if self._supervisor is not None:
            shares.share_partitions.on_forget(self._supervisor.forget_shares)
        return shares

    def _own_services(self) -> MainServices:
        return MainServices(
            controller=self.controller,
            quorum=self.quorum,
            record_cordoned=self._cordons.record,
            delegation_tokens=self.delegation_tokens,
            client_metrics=self.client_metrics,
            dns_threads=self.dns_threads,
            groups=self.groups,
            transactions=self.transactions,
            producer_ids=self.producer_ids,
            share_coordinator=self.share_coordinator,
            share_states=self.share_states,
            end_offsets=self.end_offsets,
        )

    def _check_ids(self, node: Node) -> None:
        """Check the ids of workers. Raises CannotStart if another broker has one of them."""
        for node_id in node.image.brokers:
            if node_id != self.config.node_id and self.config.is_own_id(node_id):
                raise CannotStart(f"num.workers: the metadata has another broker {node_id}: clients would mistake them")

    async def _open(self, listeners: list[Listener]) -> None:
        """Host partitions, start the other workers, load groups, create declared topics; then accept clients."""
        offline = [each for each in self.logs.directories if not each.is_online]
        for directory in offline:
            self._report_failure(directory)
        self.publisher.host_all()
        self._cordons.start()
        self.partitions.log_offline()
        if len(offline) == len(self.logs.directories):
            self._on_fatal("all log directories are offline")
        self._start_data()
        if self._supervisor is not None:
            await self._supervisor.start(self._node.deleted_topics)
        self._start_coordinators()
        self.delegation_tokens.start()
        await outcome(self.controller.create_declared_topics())
        self._prepare_clients(listeners)
        if self._supervisor is not None:
            self._supervisor.queue(self.server.backlog)
        self._admit_clients(listeners)
        if self._supervisor is not None:
            self._supervisor.open()
        self._start_console()

    def _sync_metadata(self) -> Deferred[None]:
        """Sync the log here, not in the background thread, which may first have to flush a thousand new files."""
        synced = self._node.metadata_log.sync(self.offload, self.clock.now_ms(), self.timers.call_later)
        synced.add_done_callback(lambda _: self.metadata_retention.check())
        return synced

    async def _abandon(self, listeners: list[Listener], *, mark_clean: bool = True) -> None:
        if self._supervisor is not None:
            self._supervisor.close()
        await super()._abandon(listeners, mark_clean=mark_clean and self._supervisor is None)

    # -- stop ----------------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Stop as every process does. The other workers stop at the same time, and are marked clean with it."""
        if self.console is not None:
            self.console.end()
        self._let_nobody_in()
        workers = self.loop.create_task(self._supervisor.stop()) if self._supervisor is not None else None
        self._stop_coordinators()
        await self._give_last_answers()
        are_clean = True
        if self._supervisor is not None and workers is not None:
            are_clean = await workers
            self._supervisor.close()
        await self._close(mark_clean=are_clean)

    # -- failures ------------------------------------------------------------------------------------------------------

    def _go_on_without(self, directory: LogDirectory) -> None:
        super()._go_on_without(directory)
        if self._supervisor is not None:
            self._supervisor.report_failure(directory)

    def _report_failure(self, directory: LogDirectory) -> None:
        if self.publisher.directory_failed(directory.path):
            self.controller.keep_online_directories(self.publisher.online_directories())
