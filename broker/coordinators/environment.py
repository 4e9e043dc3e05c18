"""The services that all coordinators of a broker share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from broker.automatic_topics import AutomaticTopics
    from broker.metadata_cache import MetadataCache
    from broker.replicas.durability import Durability
    from broker.replicas.partitions import Partitions
    from config import BrokerConfig
    from runtime.clock import Clock
    from runtime.timers import Timers


class CoordinatorEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """Time, the metadata, and the partitions in which coordinators store their state.

    `topics` creates a coordinator's internal topic when it is first needed; `durability` waits for its records.
    """

    config: BrokerConfig
    loop: AbstractEventLoop
    clock: Clock
    timers: Timers
    metadata: MetadataCache
    topics: AutomaticTopics
    partitions: Partitions
    durability: Durability
