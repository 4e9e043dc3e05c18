"""Services: what a process of the broker offers to handlers, by name and type.

A handler declares the services that it needs as keyword-only parameters of these names. The dispatcher binds them
before the first request (broker/requests/binding.py). The annotation of a parameter is the type of the field here, or
a narrower Protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.access.authorization.guard import Guard
    from broker.coordinators.group.coordinator import GroupCoordinator
    from broker.metadata_cache import MetadataCache
    from broker.replicas.fetch_session import FetchSessions
    from broker.replicas.partitions import Partitions
    from config import BrokerConfig
    from runtime.clock import Clock
    from runtime.purgatory import Purgatory
    from runtime.timers import Timers


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What every process of a broker offers."""

    config: BrokerConfig
    clock: Clock
    timers: Timers
    purgatory: Purgatory
    metadata: MetadataCache
    partitions: Partitions
    fetch_sessions: FetchSessions
    #: None without an authorizer.
    guard: Guard | None

    def by_name(self) -> Mapping[str, object]:
        """Return the services as the dispatcher takes them."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class MainServices(Services):
    """What the main process offers besides: decisions about the cluster, and coordinators."""

    groups: GroupCoordinator
