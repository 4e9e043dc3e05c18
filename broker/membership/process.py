"""The process of a broker whose controllers are other nodes (process.roles=broker).

The start has Apache Kafka's order: bind the ports, follow the metadata log up to its committed end, register, open the
logs, ask to be unfenced, and then accept clients. The stop moves leadership away first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from broker.access.authentication.delegation_tokens import DelegationTokens
from broker.access.authorization.selection import guard_of
from broker.coordinators.transaction.producer_ids import ProducerIds
from broker.membership.active_controller import ActiveController
from broker.membership.endpoints import RegisteredEndpoints
from broker.membership.fast_paths import with_fast_paths
from broker.membership.follower_apis import with_followers
from broker.membership.forwarding import EnvelopeForwarder, apis_of_a_member
from broker.membership.joining import JoiningMember
from broker.membership.leaving import leave
from broker.membership.lifecycle import report_cordoned
from broker.membership.peers import Peers
from broker.membership.publisher import MemberPublisher
from broker.membership.replication import MemberReplication
from broker.membership.topic_creation import MemberTopics
from broker.metadata_cache import MetadataCache
from broker.observability.telemetry.subscriptions import ClientMetrics
from broker.replication.durability import ReplicatedDurability
from broker.replication.replica_reads import ReplicaFetchAttempt
from broker.services import MemberServices
from controller.metadata_retention import MetadataRetention
from replication.lifecycle import LifecycleState
from runtime.deferred import outcome, settled

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.network.listener import Listener
    from broker.observability.metrics.observed import MainParts
    from broker.replicas.fetch_attempt import FetchAttempt
    from broker.replicas.remote_reads import RemoteReads
    from broker.replication.followed_log import LocalFollowedLog
    from broker.replication.replica_reads import ReplicaReads
    from broker.requests.advertised_endpoints import AdvertisedEndpoints
    from broker.requests.served_api import ServedApi
    from storage.log.directory import LogDirectory


class MemberProcess(JoiningMember):
    """A member of a cluster. It calls `on_fatal(reason)` when it cannot follow the controllers any more."""

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

    def _on_metadata(self) -> None:
        super()._on_metadata()
        if self._forwarder is not None:
            self._forwarder.learn_versions()
            self.metadata_retention.check()

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

    def _wire_replication(self) -> MemberReplication:
        self.durability = ReplicatedDurability(self.durability, self.config.get_int("request.timeout.ms"))
        image, leave = self._committed.image, self._coordinate_no_longer
        self.peers = Peers(image, self._peer_clients, self.config.inter_broker_listener_name)
        return MemberReplication(self, self.peers, self._channel(), self._leader, self._epoch, leave)

    def refused_logs(self) -> Sequence[LocalFollowedLog]:
        return () if self._replication is None else self._replication.refused_logs()

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
        for part in (self._replication, self._forwarder, self.controller):
            if part is not None:
                part.close()
        super()._disconnect()

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
