"""The process of a node alone: it has the controller and the coordinators, and runs the web console."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.access.authentication.delegation_tokens import DelegationTokens
from broker.access.authorization.selection import guard_of
from broker.automatic_topics import AutomaticTopics
from broker.console.hosted import bind_console
from broker.coordinator_process import CoordinatorProcess
from broker.coordinators.transaction.producer_ids import ProducerIds
from broker.metadata_cache import MetadataCache
from broker.metadata_publisher import MetadataPublisher
from broker.network.listener import Listener
from broker.network.settings import bind_listeners
from broker.observability.telemetry.subscriptions import ClientMetrics
from broker.replicas.cordoned_dirs import CordonRecorder
from broker.services import MainServices
from broker.startup.node import Node, open_node
from controller.controller import Controller
from controller.metadata_retention import MetadataRetention
from controller.quorum import MetadataQuorum
from runtime.deferred import Deferred, outcome
from storage.log.directory import LogDirectory

if TYPE_CHECKING:
    from broker.observability.metrics.observed import MainParts


class MainProcess(CoordinatorProcess):
    """A node alone. It calls `on_fatal(reason)` when no log directory works any more."""

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

    # -- start ---------------------------------------------------------------------------------------------------------

    def _bind(self) -> list[Listener]:
        self.console = bind_console(self.config)
        return bind_listeners(self.config, self.clock)

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
        config, clock = self.config, self.clock
        self._wire_data(node)
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

    async def _open(self, listeners: list[Listener]) -> None:
        """Host partitions, load groups, create declared topics; then accept clients."""
        offline = [each for each in self.logs.directories if not each.is_online]
        for directory in offline:
            self._report_failure(directory)
        self.publisher.host_all()
        self._cordons.start()
        self.partitions.log_offline()
        if len(offline) == len(self.logs.directories):
            self._on_fatal("all log directories are offline")
        self._start_data()
        self._start_coordinators()
        self.delegation_tokens.start()
        await outcome(self.controller.create_declared_topics())
        self._prepare_clients(listeners)
        self._admit_clients(listeners)
        self._start_console()

    def _sync_metadata(self) -> Deferred[None]:
        """Sync the log here, not in the background thread, which may first have to flush a thousand new files."""
        synced = self._node.metadata_log.sync(self.offload, self.clock.now_ms(), self.timers.call_later)
        synced.add_done_callback(lambda _: self.metadata_retention.check())
        return synced

    # -- stop ----------------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Stop cleanly."""
        if self.console is not None:
            self.console.end()
        self._let_nobody_in()
        self._stop_coordinators()
        await self._give_last_answers()
        await self._close()

    # -- failures ------------------------------------------------------------------------------------------------------

    def _report_failure(self, directory: LogDirectory) -> None:
        if self.publisher.directory_failed(directory.path):
            self.controller.keep_online_directories(self.publisher.online_directories())
