"""What all coordinators of a broker stand on."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from dataclasses import dataclass

from broker.automatic_topics import AutomaticTopics
from broker.maintenance.log_scheduler import Background
from broker.metadata_cache import MetadataCache
from broker.replicas.partitions import Partitions
from config import BrokerConfig
from runtime.clock import Clock
from runtime.timers import Timers


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorEnvironment:
    """Time, the metadata, and the partitions in which coordinators keep their state.

    `topics` creates a coordinator's internal topic when it is first needed; `background` flushes its logs.
    """

    config: BrokerConfig
    loop: AbstractEventLoop
    clock: Clock
    timers: Timers
    metadata: MetadataCache
    topics: AutomaticTopics
    partitions: Partitions
    background: Background
