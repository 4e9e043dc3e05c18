"""The process of a broker whose controllers are other nodes (process.roles=broker).

The start has Apache Kafka's order: bind the ports, follow the metadata log up to its committed end, register, open the
logs, ask to be unfenced, and then accept clients. The stop moves leadership away first.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from broker.access.authentication.delegation_tokens import DelegationTokens
from broker.access.authorization.selection import guard_of
from broker.console.hosted import bind_console
from broker.coordinators.transaction.producer_ids import ProducerIds
from broker.membership.active_controller import ActiveController
from broker.membership.cluster_id import find_cluster_id
from broker.membership.committed_metadata import CommittedMetadata
from broker.membership.controllers import ControllerChannel, NetworkChannel
from broker.membership.coordination.coordinating import CoordinatingMember
from broker.membership.data import MemberData
from broker.membership.discovery import bootstrap_endpoints
from broker.membership.endpoints import RegisteredEndpoints
from broker.membership.fast_paths import with_fast_paths
from broker.membership.follower_apis import with_followers
from broker.membership.forwarding import EnvelopeForwarder, apis_of_a_member
from broker.membership.leaving import leave
from broker.membership.lifecycle import MemberLifecycle, report_cordoned
from broker.membership.metadata_observer import FollowedMetadata, MetadataObserver
from broker.membership.peers import Peers
from broker.membership.progress import Progress
from broker.membership.publisher import MemberPublisher
from broker.membership.registration import identity, observer_limits, times
from broker.membership.replication import MemberReplication
from broker.membership.start_limits import bound_start, in_time
from broker.membership.topic_creation import MemberTopics
from broker.membership.voters import check_no_voter
from broker.metadata_cache import MetadataCache
from broker.network.outbound_clients import OutboundClients
from broker.network.outbound_security import controller_security, inter_broker_security
from broker.network.settings import bind_listeners
from broker.observability.telemetry.subscriptions import ClientMetrics
from broker.process.start_errors import CannotStart, StartInterrupted
from broker.process.state import BrokerState
from broker.replication.durability import ReplicatedDurability
from broker.replication.replica_reads import ReplicaFetchAttempt
from broker.services import MemberServices
from config import ConfigError
from controller.metadata_retention import MetadataRetention
from replication.lifecycle import BrokerLifecycle, LifecycleState
from replication.observing import Endpoint, Observer
from runtime.deferred import outcome, settled
from runtime.outage_log import OutageLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.network.listener import Listener
    from broker.network.outbound_client import OpenConnection
    from broker.network.outbound_security import OutboundSecurity
    from broker.observability.metrics.observed import MainParts
    from broker.replicas.fetch_attempt import FetchAttempt
    from broker.replicas.remote_reads import RemoteReads
    from broker.replication.replica_reads import ReplicaReads
    from broker.requests.advertised_endpoints import AdvertisedEndpoints
    from broker.requests.served_api import ServedApi
    from broker.startup.opened_data import OpenedData
    from config import BrokerConfig
    from storage.log.directory import LogDirectory

log = logging.getLogger(__name__)

_ADVICE = "Check that a majority of the controllers runs, and that this broker reaches them"


class MemberProcess(CoordinatingMember):
    """A member of a cluster. It calls `on_fatal(reason)` when it cannot follow the controllers any more."""

    #: Opens connections to other nodes, in place of the loop's own function. A test may set it before the start.
    open_connection: OpenConnection | None = None
    _member_data: MemberData
    _controller_clients: OutboundClients
    _peer_clients: OutboundClients
    _observer: FollowedMetadata | None = None
    _lifecycle: MemberLifecycle | None = None
    _forwarder: EnvelopeForwarder | None = None
    controller: ActiveController | None = None
    _replication: MemberReplication | None = None

    @property
    def main_parts(self) -> MainParts:
        from broker.membership.measured_replicas import MeasuredReplicas  # loaded only with metrics
        from broker.observability.metrics.observed import MainParts

        assert self._replication is not None
        assert self._observer is not None
        return MainParts(
            controller=self._committed,
            quorum=self._observer,
            groups=self.groups,
            transactions=self.transactions,
            client_metrics=self.client_metrics,
            replicas=MeasuredReplicas(self._replication, self._committed, self.partitions),
        )

    def _served_apis(self) -> Mapping[int, ServedApi]:
        served = with_fast_paths(apis_of_a_member(super()._served_apis()), self._replica_reads)
        served = with_followers(served, lambda: self.dispatcher.services, self._replica_reads)
        return self._committed_apis(served)

    def _replica_reads(self) -> ReplicaReads:
        assert self._replication is not None
        return self._replication.reads

    def _endpoints(self) -> AdvertisedEndpoints:
        return RegisteredEndpoints(self.config, self.metadata)

    # -- start ---------------------------------------------------------------------------------------------------------

    def interrupt(self) -> None:
        self._progress.fail(StartInterrupted())

    def _bind(self) -> list[Listener]:
        self._progress = Progress(self.loop)
        self._outage = OutageLog(log, "Requests to the controllers", _ADVICE, self.clock.monotonic_ms)
        self._lift_bound = bound_start(self.config, self.timers, self._progress)
        self.console = bind_console(self.config)
        self._bound = bind_listeners(self.config, self.clock)
        return self._bound

    def _open_data(self) -> MemberData:
        data = MemberData(
            self.config, self.clock.now_ms(), self._descriptors.log_files, on_failure=self._directory_failed
        )
        data.lock()
        return data

    async def _load_data(self) -> OpenedData:
        """Find the controllers, follow the metadata up to its end, register, and open the logs."""
        data = self._member_data = await self.loop.run_in_executor(None, self._open_data)
        try:
            await self._join(data)
        except BaseException:
            self._disconnect()
            data.abandon()
            raise
        return data

    async def _join(self, data: MemberData) -> None:
        in_thread = functools.partial(self.loop.run_in_executor, None)
        most_ms = self.config.get_int("controller.socket.timeout.ms")
        self._controller_clients = await self._clients(controller_security, most_ms)
        self._peer_clients = await self._clients(inter_broker_security)
        cluster_id = self._cluster_id = await find_cluster_id(
            self.config, data.cluster_id, self._channel(), self.timers, self._progress
        )
        await in_thread(functools.partial(data.format, cluster_id, unformatted=False))
        metadata_log = await in_thread(data.open_metadata, self.clock.now_ms)
        self._committed = await in_thread(CommittedMetadata, metadata_log)
        await self._observe(data, cluster_id)
        quorum = self._committed.log.quorum
        await check_no_voter(self.config.node_id, quorum, self._leader(), self._channel(), self._progress)
        self._committed.is_paused = True  # threads read the image
        await in_thread(data.check_missing, self._committed.image)
        await in_thread(data.format, cluster_id)
        self._committed.is_paused = False
        await self._register(data, cluster_id)
        self._committed.is_paused = True
        await in_thread(data.load_logs, self._committed.image)

    async def _clients(
        self, load: Callable[[BrokerConfig], OutboundSecurity], most_timeout_ms: int | None = None
    ) -> OutboundClients:
        """Return what creates clients with the security that `load` reads. Raises CannotStart."""
        try:
            security = await self.loop.run_in_executor(None, load, self.config)
        except ConfigError as error:
            raise CannotStart(str(error.problems[0])) from None
        return OutboundClients(self.config, self.loop, self.timers, security, self.open_connection, most_timeout_ms)

    async def _observe(self, data: MemberData, cluster_id: str) -> None:
        """Follow the metadata log up to its committed end."""
        epoch = await self.loop.run_in_executor(None, data.metadata_log.last_leader_epoch)
        core = Observer(
            self.config.node_id,
            cluster_id,
            data.metadata_directory_id,
            bootstrap_endpoints(self.config),
            data.metadata_log,
            observer_limits(self.config),
            epoch,
        )
        timeout_ms = self.config.get_int("controller.quorum.request.timeout.ms")
        observer = self._observer = MetadataObserver(
            core,
            self._committed,
            self._channel(f"raft-client-{self.config.node_id}", timeout_ms),
            self.clock,
            self.timers,
            self._on_metadata,
            self._on_failure,
            self._outage,
        )
        observer.start()
        await self._in_time(lambda: self._committed.is_current, lambda: observer.last_error)

    async def _register(self, data: MemberData, cluster_id: str) -> None:
        """Register, and wait until the own registration is applied."""
        epoch = data.previous_epoch
        in_thread = functools.partial(self.loop.run_in_executor, None)
        registered = await in_thread(identity, self.config, cluster_id, self._bound, data.log_directory_ids, epoch)
        timeout_ms = self.config.get_int("broker.session.timeout.ms") // 2
        self._lifecycle = MemberLifecycle(
            BrokerLifecycle(registered, times(self.config), self.clock.monotonic_ms()),
            self._channel(timeout_ms=timeout_ms),
            self._leader,
            self.clock,
            self.timers,
            self._progress.changed,
            self._on_failure,
            self._outage,
        )
        self._lifecycle.note_applied(self._committed)
        self._lifecycle.start()
        await self._progress.until(lambda: self._state >= LifecycleState.RECOVERING)
        data.broker_epoch = self._lifecycle.broker_epoch

    async def _in_time(self, is_reached: Callable[[], bool], reason: Callable[[], str | None]) -> None:
        await in_time(self.config, self.timers, self._progress, is_reached, reason)

    def _channel(self, client_id: str | None = None, timeout_ms: int | None = None) -> ControllerChannel:
        return NetworkChannel(self._controller_clients, client_id or str(self.config.node_id), timeout_ms)

    @property
    def _state(self) -> LifecycleState:
        return LifecycleState.REGISTERING if self._lifecycle is None else self._lifecycle.state

    def _leader(self) -> Endpoint | None:
        return self._observer.leader if self._observer is not None else None

    def _on_metadata(self) -> None:
        if self._lifecycle is not None:
            self._lifecycle.note_applied(self._committed)
        if self._forwarder is not None:
            self._forwarder.learn_versions()
            self.metadata_retention.check()
        self._progress.changed()

    def _on_failure(self, reason: str) -> None:
        """End the start, or the broker."""
        if self.state is BrokerState.STARTING:
            self._progress.fail(CannotStart(reason))
        else:
            self._on_fatal(reason)

    def _tiered_attempts(self, reads: RemoteReads) -> Callable[..., FetchAttempt]:
        from broker.tiering.reading.tiered_fetch import tiered

        assert self._replication is not None
        consumers = tiered(ReplicaFetchAttempt, reads)
        return self._replication.reads._replace(consumer_attempt=consumers).attempt

    # -- parts -------------------------------------------------------------------------------------------------------

    def _wire(self) -> None:
        config, clock, data = self.config, self.clock, self._member_data
        self._wire_data(data)
        self.metadata = MetadataCache(self._cluster_id, self._committed.image)
        self.controller = ActiveController(
            config, self._committed, self._channel(), self._leader, self._epoch, self.timers
        )
        self.publisher = MemberPublisher(
            config, self.metadata, self.partitions, self.controller, data.directory_ids, self.loop.call_soon
        )
        self.publisher.replication = self._replication = self._wire_replication()
        self.fetch_attempt = self._replication.reads.attempt
        self._committed.publish_to(self.publisher.publish)
        self._wire_moves(self.controller, self.controller.assign_first, self._replication.reads.partitions)
        self._forwarder = EnvelopeForwarder(
            self._channel(),
            self._leader,
            self.dispatcher.served,
            clock,
            self.timers,
            config.get_int("request.timeout.ms"),
            self.server.held,
            self.server.queued,
        )
        self.topics = MemberTopics(config, self.metadata, self.publisher, self.controller, self._forwarder)
        self.guard = self.dispatcher.guard = guard_of(config, self.metadata)
        self._enforce_quotas()
        self.delegation_tokens = DelegationTokens(config, self.metadata, None, clock, self.timers)
        self.features = self._committed
        self.metadata_retention = self._retention()
        self.client_metrics = ClientMetrics(config, self.metadata, clock.monotonic_ms)
        self.producer_ids = ProducerIds(self.controller.allocate_producer_ids)
        self._wire_coordinators(self.controller)

    def _retention(self) -> MetadataRetention:
        """Return what writes snapshots of this broker's copy of the metadata log."""
        return MetadataRetention(self._committed, self._committed.image, self.config, self.offload, self.clock.now_ms)

    def _epoch(self) -> int:
        return self._member_data.broker_epoch

    def _wire_replication(self) -> MemberReplication:
        self.durability = ReplicatedDurability(self.durability, self.config.get_int("request.timeout.ms"))
        image, leave = self._committed.image, self._coordinate_no_longer
        self.peers = Peers(image, self._peer_clients, self.config.inter_broker_listener_name)
        return MemberReplication(self, self.peers, self._channel(), self._leader, self._epoch, leave)

    def _own_services(self) -> MemberServices:
        assert self._forwarder is not None
        return MemberServices(
            forwarder=self._forwarder,
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
        """Host partitions, ask to be unfenced, then accept clients."""
        assert self._lifecycle is not None
        assert self._observer is not None
        assert self._forwarder is not None
        for directory in self.logs.directories:
            if not directory.is_online:
                self._report_failure(directory)
        self.publisher.host_all()
        self.partitions.log_offline()
        self._committed.is_paused = False
        self._observer.apply()
        self._start_data()
        assert self._replication is not None
        self._replication.start()
        self._start_coordinators()
        self._prepare_clients(listeners)
        for listener in listeners:  # clients that learn of the unfenced broker at once wait for it
            listener.queue(self.server.backlog)
        await outcome(self._forwarder.learn_versions())
        report_cordoned(self._lifecycle, self.config, self.logs, self.directory_ids)
        self._lifecycle.logs_are_open()
        await self._progress.until(self._is_unfenced)
        self._lift_bound()
        assert self.controller is not None
        await outcome(settled([self.controller.create_declared_topics()]))
        self._admit_clients(listeners)
        self._start_console()

    def _is_unfenced(self) -> bool:
        """Return whether the controller has unfenced this broker, and clients that ask it see that."""
        registration = self._committed.image.brokers.get(self.config.node_id)
        return self._state >= LifecycleState.RUNNING and (registration is None or not registration.fenced)

    async def _abandon(self, listeners: list[Listener]) -> None:
        self._disconnect()
        await super()._abandon(listeners)

    def _disconnect(self) -> None:
        for part in (self._replication, self._lifecycle, self._observer, self._forwarder, self.controller):
            if part is not None:
                part.close()

    # -- stop ----------------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Move leadership away, and stop as every process does. The logs are marked as clean at the end."""
        if self.console is not None:
            self.console.end()
        if self.config.get_bool("controlled.shutdown.enable") and self._may_leave():
            assert self._lifecycle is not None
            await leave(self._lifecycle, self.config, self.clock, self.timers, self.loop)
        self._let_nobody_in()
        self._stop_coordinators()
        await self._give_last_answers()
        self._disconnect()
        await self._close()

    def _may_leave(self) -> bool:
        """Return whether a controller can move the leadership away."""
        return True

    # -- failures ------------------------------------------------------------------------------------------------------

    def _report_failure(self, directory: LogDirectory) -> None:
        if self._replication is not None:
            self._replication.replicas.take_offline(directory)
        failed = self.directory_ids.get(directory.path)
        if self.publisher.directory_failed(directory.path) and failed is not None and self._lifecycle is not None:
            self._lifecycle.directory_failed(failed)
