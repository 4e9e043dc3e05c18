"""The services of the process that the tier uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Sequence

    from broker.automatic_topics import AutomaticTopics
    from broker.maintenance.log_scheduler import Background
    from broker.metadata_cache import MetadataCache
    from broker.replicas.leader_reads import LeaderReads
    from broker.replicas.own_appends import OwnAppends
    from broker.replicas.partitions import Partitions
    from broker.replication.followed_log import LocalFollowedLog
    from config import BrokerConfig
    from runtime.clock import Clock
    from runtime.timers import Timers
    from storage.log_manager import LogManager


class TierServices(NamedTuple):
    """The services that all parts of the tier share."""

    config: BrokerConfig
    loop: AbstractEventLoop
    clock: Clock
    timers: Timers
    metadata: MetadataCache
    topics: AutomaticTopics
    partitions: Partitions
    logs: LogManager
    background: Background
    appends: OwnAppends
    #: None in a node alone, which leads all partitions.
    leader_reads: LeaderReads | None = None
    #: Returns the followed logs whose leaders have what they need in remote storage alone.
    refused_logs: Callable[[], Sequence[LocalFollowedLog]] = tuple
