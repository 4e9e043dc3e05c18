"""The services of the main process for its workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Mapping

    from broker.coordinators.share.coordinator import ShareCoordinator
    from broker.coordinators.share.own_appends import OwnAppends
    from broker.coordinators.transaction.verifier import TransactionVerifier
    from broker.metadata_cache import MetadataCache
    from broker.requests.dispatcher import Dispatcher
    from broker.startup.missing_partitions import Missing
    from config import BrokerConfig
    from controller.controller import Controller
    from controller.quorum import MetadataQuorum
    from coordinator.transaction.transaction import TopicPartition
    from runtime.timers import Timers
    from storage.log_manager import LogManager


class PendingMarkers(Protocol):
    """The transaction coordinator's markers that wait for their partitions."""

    def retry_markers(self, is_ready: Callable[[TopicPartition], bool]) -> None:
        """Write the markers that wait for partitions that are ready now."""


class WorkerBackend(msgspec.Struct, frozen=True, kw_only=True):
    """The controller, the coordinators, and the data that a worker needs at its start.

    Args:
        ports: the ports of all workers, by listener.
        own_appends: appends the broker's own batches to partitions of other workers.
        fail_directory: takes a log directory (path, reason) offline that failed in a worker.
    """

    config: BrokerConfig
    loop: AbstractEventLoop
    timers: Timers
    ports: Mapping[str, tuple[int, ...]]
    controller: Controller
    metadata: MetadataCache
    quorum: MetadataQuorum
    logs: LogManager
    directory_ids: Mapping[str, bytes]
    missing: Missing
    dispatcher: Dispatcher
    verifier: TransactionVerifier
    share_states: ShareCoordinator
    transactions: PendingMarkers
    own_appends: Callable[[], OwnAppends]
    fail_directory: Callable[[str, str], None]
