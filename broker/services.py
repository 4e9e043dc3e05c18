"""The services that a process of the broker offers to handlers, by name and type.

A handler declares the services that it needs as keyword-only parameters of these names. The dispatcher binds them
before the first request (broker/requests/binding.py). The annotation of a parameter is the type of the field here, or
a narrower Protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from broker.access.authentication.delegation_tokens import DelegationTokens
    from broker.access.authorization.guard import Guard
    from broker.automatic_topics import AutomaticTopics
    from broker.coordinators.group.coordinator import GroupCoordinator
    from broker.coordinators.share.coordinator import ShareCoordinator
    from broker.coordinators.share.fetch_services import ShareFetchServices
    from broker.coordinators.share.partitions import SharePartitions
    from broker.coordinators.share.requests import ShareRequests
    from broker.coordinators.share.states import AllShareStates
    from broker.coordinators.transaction.coordinator import TransactionCoordinator
    from broker.coordinators.transaction.markers import MarkerWriter
    from broker.coordinators.transaction.producer_ids import ProducerIds
    from broker.coordinators.transaction.verifier import TransactionVerifier
    from broker.handlers.update_features import RecordCordoned
    from broker.maintenance.replica_moves import ReplicaMoves
    from broker.metadata_cache import MetadataCache
    from broker.observability.telemetry.subscriptions import ClientMetrics
    from broker.replicas.append_scheduler import AppendScheduler
    from broker.replicas.current_leaders import CurrentLeaders
    from broker.replicas.durability import Durability
    from broker.replicas.end_offsets import EndOffsets
    from broker.replicas.fetch_attempt import FetchServices
    from broker.replicas.fetch_session import FetchSessions
    from broker.replicas.partitions import Partitions
    from broker.replicas.remote_reads import RemoteReads
    from broker.replicas.time_look_ups import TimeLookUps
    from broker.requests.advertised_endpoints import AdvertisedEndpoints
    from broker.requests.broker_identity import BrokerIdentity
    from broker.requests.forwarding import RequestForwarder
    from broker.requests.served_api import ServedApi
    from config import BrokerConfig
    from controller.controller import Controller
    from controller.quorum import FeatureSource, MetadataQuorum
    from runtime.clock import Clock
    from runtime.purgatory import Purgatory
    from runtime.thread_pool import ThreadPool
    from runtime.timers import Timers
    from storage.log_manager import LogManager


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """The services of every process of a broker."""

    config: BrokerConfig
    clock: Clock
    timers: Timers
    purgatory: Purgatory
    #: Threads for calls that block.
    offload: ThreadPool

    served_apis: Mapping[int, ServedApi]
    identity: BrokerIdentity
    endpoints: AdvertisedEndpoints
    current_leaders: CurrentLeaders
    #: None without an authorizer.
    guard: Guard | None

    metadata: MetadataCache
    features: FeatureSource
    topics: AutomaticTopics

    logs: LogManager
    moves: ReplicaMoves
    durability: Durability
    partitions: Partitions
    appends: AppendScheduler
    markers: MarkerWriter
    verifier: TransactionVerifier
    fetch_sessions: FetchSessions
    fetch_services: FetchServices
    time_look_ups: TimeLookUps
    #: None without tiered storage.
    remote_reads: RemoteReads | None


class MainServices(msgspec.Struct, frozen=True, kw_only=True):
    """The other services of the main process: decisions about the cluster, and coordinators."""

    controller: Controller
    quorum: MetadataQuorum
    record_cordoned: RecordCordoned
    delegation_tokens: DelegationTokens
    client_metrics: ClientMetrics
    #: A thread for DNS look-ups of hosts that have quotas.
    dns_threads: ThreadPool

    groups: GroupCoordinator
    transactions: TransactionCoordinator
    producer_ids: ProducerIds
    share_coordinator: ShareCoordinator
    share_states: AllShareStates
    end_offsets: EndOffsets


class MemberServices(msgspec.Struct, frozen=True, kw_only=True):
    """The other services of a broker whose controllers are other nodes: coordinators, and the way to the controller."""

    forwarder: RequestForwarder
    delegation_tokens: DelegationTokens
    client_metrics: ClientMetrics
    dns_threads: ThreadPool

    groups: GroupCoordinator
    transactions: TransactionCoordinator
    producer_ids: ProducerIds
    share_coordinator: ShareCoordinator
    share_states: AllShareStates
    end_offsets: EndOffsets


class ShareServices(msgspec.Struct, frozen=True, kw_only=True):
    """The services of share groups, in every process that serves such a group."""

    share_partitions: SharePartitions
    share_requests: ShareRequests
    share_fetches: ShareFetchServices


class ServiceTable(Mapping[str, object]):
    """The services of a process by name. `shares` returns those of share groups, which few brokers need."""

    def __init__(
        self, every: Services, own: MainServices | MemberServices, shares: Callable[[], ShareServices]
    ) -> None:
        self._ready = {name: getattr(part, name) for part in (every, own) for name in part.__struct_fields__}
        self._shares = shares

    def __getitem__(self, name: str) -> object:
        if name in ShareServices.__struct_fields__:
            return getattr(self._shares(), name)
        return self._ready[name]

    def __contains__(self, name: object) -> bool:
        return name in self._ready or name in ShareServices.__struct_fields__

    def __iter__(self) -> Iterator[str]:
        return iter((*self._ready, *ShareServices.__struct_fields__))

    def __len__(self) -> int:
        return len(self._ready) + len(ShareServices.__struct_fields__)
