"""A process of a broker with coordinators and the web console, whichever controller decides about the metadata."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from broker.access.authentication.listeners import authenticate
from broker.access.authentication.services import AuthenticationServices
from broker.broker import Broker
from broker.coordinators.environment import CoordinatorEnvironment
from broker.coordinators.group.coordinator import GroupController, GroupCoordinator
from broker.coordinators.share.coordinator import ShareCoordinator
from broker.coordinators.transaction.coordinator import TransactionCoordinator
from broker.coordinators.transaction.markers import MarkerWriter, PartitionMarkers
from broker.coordinators.transaction.verifier import CoordinatorVerifier
from broker.network.listener import Listener
from broker.network.settings import configure
from broker.replicas.end_offsets import PartitionEndOffsets
from broker.requests.dispatcher import Dispatcher
from broker.requests.served_api import ServedApi
from config import BrokerConfig
from runtime.clock import Clock
from storage.log.directory import LogDirectory

if TYPE_CHECKING:
    from broker.access.authentication.delegation_tokens import DelegationTokens
    from broker.console.process import Console
    from broker.coordinators.share.states import AllShareStates
    from broker.coordinators.transaction.producer_ids import ProducerIds
    from broker.observability.telemetry.subscriptions import ClientMetrics
    from broker.replicas.end_offsets import EndOffsets
    from broker.replicas.partition import Partition


class CoordinatorProcess(Broker):
    """The process that a user starts. It calls `on_fatal(reason)` when it cannot go on."""

    delegation_tokens: DelegationTokens
    client_metrics: ClientMetrics
    producer_ids: ProducerIds
    share_states: AllShareStates

    def __init__(
        self,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        *,
        clock: Clock | None = None,
        make_dispatcher: Callable[[Mapping[int, ServedApi]], Dispatcher] = Dispatcher,
        on_fatal: Callable[[str], None] = lambda reason: None,
    ) -> None:
        super().__init__(config, loop, clock=clock, make_dispatcher=make_dispatcher)
        self.console: Console | None = None
        self._on_fatal = on_fatal

    @property
    def addresses(self) -> list[str]:
        """The addresses on which the broker listens, for log lines."""
        return [f"{each.name}://{address}" for each in self.server.listeners for address in each.addresses]

    def interrupt(self) -> None:
        """Make a start that waits for other nodes raise StartInterrupted. A node alone waits for none."""

    # -- coordinators --------------------------------------------------------------------------------------------------

    def _wire_coordinators(self, controller: GroupController) -> None:
        config, clock = self.config, self.clock
        environment = CoordinatorEnvironment(
            config=config,
            loop=self.loop,
            clock=clock,
            timers=self.timers,
            metadata=self.metadata,
            topics=self.topics,
            partitions=self.partitions,
            durability=self.durability,
        )
        self.share_coordinator = ShareCoordinator(environment)
        self.share_states = self._share_states()
        self.groups = GroupCoordinator(environment, controller, self.share_states)
        self.markers = PartitionMarkers(self.partitions, self.appends, self.durability, clock, self.groups.log_at)
        self.end_offsets: EndOffsets = PartitionEndOffsets(self.partitions)
        self.transactions = TransactionCoordinator(environment, self.groups, self.producer_ids, self._marker_writer())
        self.verifier = CoordinatorVerifier(config, clock, self.timers, self.transactions)

    def _marker_writer(self) -> MarkerWriter:
        """Return the writer of markers to all partitions. `markers` writes to those of this process."""
        return self.markers

    def _share_states(self) -> AllShareStates:
        """Return the states of all share-partitions. `share_coordinator` stores those of this broker."""
        return self.share_coordinator

    def _start_coordinators(self) -> None:
        self.share_coordinator.start()
        self.groups.start()
        self.transactions.start()

    def _stop_coordinators(self) -> None:
        self.transactions.stop()
        self.groups.stop()
        self.share_coordinator.stop()

    # -- clients -------------------------------------------------------------------------------------------------------

    def _prepare_clients(self, listeners: list[Listener]) -> None:
        """Apply the configuration of the network and of the listeners."""
        configure(self.server, self.config, listeners)
        authenticate(listeners, self._authentication_services())

    def _admit_clients(self, listeners: list[Listener]) -> None:
        """Accept clients on all listeners of this process."""
        self.lazy_imports.start()
        self.server.open(listeners)
        self.opening.start()

    def _start_console(self) -> None:
        if self.console is not None:
            metrics_url = self.endpoint.urls[0] if self.endpoint is not None else None
            self.console.start(self.config, self.server.listeners, metrics_url)

    def _authentication_services(self) -> AuthenticationServices:
        return AuthenticationServices(
            config=self.config,
            loop=self.loop,
            clock=self.clock,
            timers=self.timers,
            offload=self.offload,
            handshakes=self.handshakes,
            dispatcher=self.dispatcher,
            metadata=self.metadata,
            delegation_tokens=self.delegation_tokens,
        )

    def _close_pools(self) -> None:
        super()._close_pools()
        if self.console is not None:
            self.console.close()

    # -- failures ------------------------------------------------------------------------------------------------------

    def _go_on_without(self, directory: LogDirectory) -> None:
        """Serve the other directories. Shut down if it was the last one, as Apache Kafka does."""
        for partition in self.partitions.take_offline(directory):
            self._coordinate_no_longer(partition)
        self._report_failure(directory)
        if not any(each.is_online for each in self.logs.directories):
            self._on_fatal("all log directories are offline")

    def _coordinate_no_longer(self, partition: Partition) -> None:
        """Give up what the coordinators keep in a partition."""
        self.groups.partition_lost(partition)
        self.share_coordinator.partition_lost(partition)
        self.transactions.partition_lost(partition)

    @abstractmethod
    def _report_failure(self, directory: LogDirectory) -> None:
        """Report a log directory that no longer works."""
