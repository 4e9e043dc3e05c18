"""The services of the process that moves of partitions between log directories need."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec

if TYPE_CHECKING:
    from broker.maintenance.log_cleaner import Cleaner
    from broker.maintenance.log_scheduler import Background
    from broker.metadata_cache import MetadataCache
    from broker.replicas.partition import Partition
    from config import BrokerConfig
    from runtime.clock import Clock
    from runtime.deferred import Deferred
    from runtime.timers import Timers
    from storage.log_manager import LogManager


class MovablePartitions(Protocol):
    """The partitions whose logs may move: `Partitions`, and in a cluster those that are followed, too."""

    def get(self, topic: str, index: int) -> Partition | None:
        """Return a partition that is hosted here, or None."""

    def open_now(self, partition: Partition) -> None:
        """Open a partition's log, whatever other logs wait."""


class Placements(Protocol):
    """Records in the metadata in which log directories partitions are: the controller, or the way to it."""

    def record_placements(self, placed: Sequence[tuple[bytes, int, bytes]]) -> None:
        """Record the log directory of each (topic id, partition, directory id). Raises the storage's errors."""


AssignFirst: TypeAlias = "Callable[[bytes, int, bytes], Deferred[None]]"
"""Assigns a replica (topic id, partition) to a directory (its id); resolves once the controller knows it."""


class MoveServices(msgspec.Struct, frozen=True, kw_only=True):
    """Services that a move between log directories needs. `directory_ids` holds the id of each path.

    `assign_first` is set in a cluster: the controller has to know the new directory before the copy takes the place of
    the log. If that directory failed in between, it would otherwise not know that the replica is offline (KIP-858).
    """

    config: BrokerConfig
    clock: Clock
    loop: AbstractEventLoop
    timers: Timers
    logs: LogManager
    directory_ids: Mapping[str, bytes]
    partitions: MovablePartitions
    background: Background
    cleaner: Cleaner
    metadata: MetadataCache
    placements: Placements
    assign_first: AssignFirst | None = None
