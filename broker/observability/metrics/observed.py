"""The parts of a process that metrics are read from."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from broker.coordinators.group.coordinator import GroupCoordinator
    from broker.coordinators.share.dead_letters import LetterCounts
    from broker.coordinators.transaction.coordinator import TransactionCoordinator
    from broker.external_readers.spark.queries import SparkQueries
    from broker.maintenance.log_cleaner import Cleaner
    from broker.maintenance.log_scheduler import Background
    from broker.metadata_cache import MetadataCache
    from broker.network.server import Server
    from broker.observability.loop_watch import LoopWatch
    from broker.observability.metrics.metric import Sample
    from broker.observability.metrics.request_times import RequestTimes
    from broker.observability.telemetry.subscriptions import ClientMetrics
    from broker.process.state import BrokerState
    from broker.replicas.end_offsets import EndOffsets
    from broker.replicas.fetch_session import FetchSessions
    from broker.replicas.partitions import Partitions
    from broker.requests.broker_identity import BrokerIdentity
    from broker.requests.dispatcher import Dispatcher
    from broker.tiering.tier import Tier
    from config import BrokerConfig
    from runtime.clock import Clock
    from runtime.process_pool import ProcessPool
    from runtime.purgatory import Purgatory
    from runtime.thread_pool import ThreadPool
    from runtime.timers import Timers
    from runtime.turn import Turn
    from storage.log_manager import LogManager


class MeasuringEndpoint(Protocol):
    """The metrics endpoint."""

    @property
    def request_times(self) -> RequestTimes:
        """The measured times of requests."""


class MetadataProgress(Protocol):
    """How far this process has followed the metadata log."""

    @property
    def last_offset(self) -> int:
        """The offset of the last record in the image."""


class QuorumView(Protocol):
    """The quorum of the metadata log, as this node knows it."""

    @property
    def leader_id(self) -> int:
        """The controller that leads; -1 if that is unknown."""

    @property
    def epoch(self) -> int:
        """The leader epoch."""

    @property
    def high_watermark(self) -> int:
        """The end of the committed part."""

    @property
    def end_offset(self) -> int:
        """The end of this node's log."""


class ReplicaView(Protocol):
    """The replicas of a member of a cluster."""

    @property
    def followed_count(self) -> int:
        """The number of partitions that this broker has, and does not lead."""

    @property
    def offline_count(self) -> int:
        """How many replicas of this broker have no usable log, without those that it leads."""

    @property
    def isr_changes(self) -> tuple[int, int]:
        """How often in-sync replicas became fewer, and more."""

    def samples(self) -> Iterator[Sample]:
        """Yield the samples that only a member has."""


class ClusterControllerView(Protocol):
    """The controller of a cluster, in the process of a broker."""

    def samples(self) -> Iterator[Sample]:
        """Yield the samples that only a controller of other brokers has."""


class MainParts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts that only the process that a user starts has."""

    controller: MetadataProgress
    quorum: QuorumView
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    client_metrics: ClientMetrics
    replicas: ReplicaView | None = None
    cluster_controller: ClusterControllerView | None = None


class MeasuredProcess(Protocol):
    """A running process whose requests are measured."""

    timers: Timers
    turn: Turn
    dispatcher: Dispatcher
    server: Server

    @property
    def endpoint(self) -> MeasuringEndpoint | None:
        """The metrics endpoint; None without one."""


class ObservedProcess(MeasuredProcess, Protocol):
    """A running broker process, observed on its event loop."""

    config: BrokerConfig
    loop: AbstractEventLoop
    clock: Clock
    purgatory: Purgatory
    offload: ThreadPool
    handshakes: ThreadPool
    workers: ProcessPool
    loop_watch: LoopWatch
    logs: LogManager
    background: Background
    cleaner: Cleaner
    partitions: Partitions
    fetch_sessions: FetchSessions
    end_offsets: EndOffsets
    queries: SparkQueries | None
    metadata: MetadataCache
    identity: BrokerIdentity
    state: BrokerState
    dead_letter_counts: dict[str, LetterCounts]
    tier: Tier | None

    @property
    def main_parts(self) -> MainParts:
        """The controller, the coordinators and the replicas."""
