"""Create the services of a process of the broker from its parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from broker.replicas.current_leaders import CurrentLeaders
from broker.replicas.down_conversion import ConversionServices
from broker.replicas.fetch_attempt import FetchAttempt, FetchServices
from broker.services import Services, ShareServices

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from broker.access.authorization.guard import Guard
    from broker.automatic_topics import AutomaticTopics
    from broker.coordinators.share.dead_letters import DeadLetterWriter, LetterCounts
    from broker.coordinators.share.states import ShareStates
    from broker.coordinators.transaction.markers import MarkerWriter
    from broker.coordinators.transaction.verifier import TransactionVerifier
    from broker.maintenance.log_scheduler import Background
    from broker.maintenance.replica_moves import ReplicaMoves
    from broker.metadata_cache import MetadataCache
    from broker.replicas.append_scheduler import AppendScheduler
    from broker.replicas.durability import Durability
    from broker.replicas.fetch_session import FetchSessions
    from broker.replicas.leader_reads import LeaderReads
    from broker.replicas.own_appends import OwnAppends
    from broker.replicas.partitions import Partitions
    from broker.replicas.time_look_ups import TimeLookUps
    from broker.replication.followed_log import LocalFollowedLog
    from broker.requests.advertised_endpoints import AdvertisedEndpoints
    from broker.requests.broker_identity import BrokerIdentity
    from broker.requests.dispatcher import Dispatcher
    from broker.tiering.tier import Tier
    from config import BrokerConfig
    from controller.quorum import FeatureSource
    from runtime.clock import Clock
    from runtime.gate import Gate
    from runtime.process_pool import ProcessPool
    from runtime.purgatory import Purgatory
    from runtime.thread_pool import ThreadPool
    from runtime.timers import Timers
    from storage.log_manager import LogManager


class ProcessParts(Protocol):
    """The parts of every process of a broker."""

    config: BrokerConfig
    clock: Clock
    timers: Timers
    purgatory: Purgatory
    offload: ThreadPool
    workers: ProcessPool
    conversions: Gate
    dispatcher: Dispatcher
    identity: BrokerIdentity
    guard: Guard | None
    metadata: MetadataCache
    features: FeatureSource
    topics: AutomaticTopics
    logs: LogManager
    moves: ReplicaMoves
    durability: Durability
    partitions: Partitions
    appends: AppendScheduler
    verifier: TransactionVerifier
    fetch_sessions: FetchSessions
    time_look_ups: TimeLookUps
    fetch_attempt: Callable[..., FetchAttempt]
    tier: Tier | None

    @property
    def markers(self) -> MarkerWriter:
        """Writes the markers of transactions to the partitions of all brokers."""


def process_services(parts: ProcessParts, endpoints: AdvertisedEndpoints) -> Services:
    """Return the services of every broker that handlers may need."""
    leaders = CurrentLeaders(parts.config.node_id, parts.metadata, parts.partitions)
    conversion = ConversionServices(parts.appends, parts.conversions, parts.offload, parts.workers, parts.clock)
    fetches = FetchServices(
        parts.config,
        parts.clock,
        parts.purgatory,
        parts.partitions,
        parts.guard,
        parts.offload,
        endpoints,
        leaders,
        conversion,
        parts.fetch_attempt,
    )
    return Services(
        config=parts.config,
        clock=parts.clock,
        timers=parts.timers,
        purgatory=parts.purgatory,
        offload=parts.offload,
        served_apis=parts.dispatcher.served,
        identity=parts.identity,
        endpoints=endpoints,
        current_leaders=leaders,
        guard=parts.guard,
        metadata=parts.metadata,
        features=parts.features,
        topics=parts.topics,
        logs=parts.logs,
        moves=parts.moves,
        durability=parts.durability,
        partitions=parts.partitions,
        appends=parts.appends,
        markers=parts.markers,
        verifier=parts.verifier,
        fetch_sessions=parts.fetch_sessions,
        fetch_services=fetches,
        time_look_ups=parts.time_look_ups,
        remote_reads=None if parts.tier is None else parts.tier.reader,
    )


class TieredParts(Protocol):
    """The parts of a process that tiered storage uses."""

    config: BrokerConfig
    loop: AbstractEventLoop
    clock: Clock
    timers: Timers
    metadata: MetadataCache
    topics: AutomaticTopics
    partitions: Partitions
    logs: LogManager
    background: Background

    @property
    def own_appends(self) -> OwnAppends:
        """Appends to the partitions of all brokers."""

    @property
    def leader_reads(self) -> LeaderReads | None:
        """Reads the partitions of other brokers; None in a node alone."""

    def refused_logs(self) -> Sequence[LocalFollowedLog]:
        """Return the followed logs whose leaders have what they need in remote storage alone."""


def tier_of(parts: TieredParts) -> Tier | None:
    """Return the tier of a process; None without remote.log.storage.system.enable. Raises CannotStart."""
    if not parts.config.get_bool("remote.log.storage.system.enable"):
        return None
    from broker.tiering.services import TierServices  # few brokers have a tier
    from broker.tiering.wiring import make_tier

    return make_tier(
        TierServices(
            config=parts.config,
            loop=parts.loop,
            clock=parts.clock,
            timers=parts.timers,
            metadata=parts.metadata,
            topics=parts.topics,
            partitions=parts.partitions,
            logs=parts.logs,
            background=parts.background,
            appends=parts.own_appends,
            leader_reads=parts.leader_reads,
            refused_logs=parts.refused_logs,
        )
    )


def share_services(
    every: Services,
    states: ShareStates,
    own_appends: Callable[[], OwnAppends],
    letter_counts: dict[str, LetterCounts],
) -> ShareServices:
    """Create the services of share groups, whose states are read from and written to `states`.

    `own_appends` is called when the first dead letter is due; `letter_counts` of groups are kept for metrics.
    """
    # Imported here, because few brokers have share groups. The modules of the handlers import the same.
    from broker.coordinators.share.fetch_services import ShareFetchServices
    from broker.coordinators.share.partitions import SharePartitions
    from broker.coordinators.share.requests import ShareRequests

    def dead_letters() -> DeadLetterWriter:
        from broker.coordinators.share.dead_letters import DeadLetterServices, DeadLetterWriter

        services = DeadLetterServices(
            every.config, every.clock, every.timers, every.metadata, every.topics, own_appends(), letter_counts
        )
        return DeadLetterWriter(services)

    shares = SharePartitions(
        every.config,
        every.clock,
        every.timers,
        every.purgatory,
        every.metadata,
        every.time_look_ups,
        states,
        dead_letters,
        every.remote_reads,
    )
    return ShareServices(
        share_partitions=shares,
        share_requests=ShareRequests(every.guard, every.partitions, shares, states, every.current_leaders),
        share_fetches=ShareFetchServices(
            every.clock, every.purgatory, every.time_look_ups, every.partitions, shares, every.remote_reads
        ),
    )
