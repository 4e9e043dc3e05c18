"""The services of the process that moves of partitions between log directories need."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from broker.maintenance.log_cleaner import Cleaner
    from broker.maintenance.log_scheduler import Background
    from broker.metadata_cache import MetadataCache
    from broker.replicas.partitions import Partitions
    from config import BrokerConfig
    from runtime.clock import Clock
    from runtime.timers import Timers
    from storage.log_manager import LogManager


class Placements(Protocol):
    """Records in the metadata in which log directories partitions are: the controller, or a worker's access to it."""

    def record_placements(self, placed: Sequence[tuple[bytes, int, bytes]]) -> None:
        """Record the log directory of each (topic id, partition, directory id). Raises the storage's errors."""


class MoveServices(msgspec.Struct, frozen=True, kw_only=True):
    """Services that a move between log directories needs. `directory_ids` holds the id of each path."""

    config: BrokerConfig
    clock: Clock
    loop: AbstractEventLoop
    timers: Timers
    logs: LogManager
    directory_ids: Mapping[str, bytes]
    partitions: Partitions
    background: Background
    cleaner: Cleaner
    metadata: MetadataCache
    placements: Placements
