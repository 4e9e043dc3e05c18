"""The data of a controller: its metadata directory and the metadata log, which it leads from the start on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from config import BrokerConfig
from controller.directory_checks import inspect
from controller.formatting import NodeData, make_ready, quorum_of
from controller.leadership import ActiveLog, load_metadata
from controller.metadata_log import MetadataLog
from controller.metadata_retention import write_last_snapshot
from metadata.image import Endpoint, MetadataImage
from metadata.loading import MetadataLoader
from runtime.ids import random_id
from storage.errors import LogOffline
from storage.fs import LOCAL
from storage.log.closing import close_logs
from storage.log.directory import LogDirectory, lock_all


class ControllerData:
    """The metadata log of a controller, which is its leader.

    `directory_ids` has the id of the metadata directory by its path.
    """

    def __init__(self, config: BrokerConfig, data: NodeData, metadata_log: MetadataLog, image: MetadataImage) -> None:
        self.cluster_id = data.cluster_id
        self.directory_ids = data.directory_ids
        self.metadata_log = metadata_log
        self.image = image
        self._config = config

    def close(self, now_ms: int) -> None:
        """Write the last snapshot, close the log, and unlock the directory. Blocks."""
        partition_log = self.metadata_log.partition_log
        self.write_last_snapshot(now_ms)
        close_logs([partition_log], now_ms)
        partition_log.directory.unlock()

    def write_last_snapshot(self, now_ms: int) -> None:
        """Write a snapshot if the next start would read much without it. Blocks."""
        directory = self.metadata_log.partition_log.directory
        if directory.is_online:
            directory.attempt(partial(self._write_snapshot, now_ms))

    def _write_snapshot(self, now_ms: int) -> None:
        try:
            write_last_snapshot(self.metadata_log, self.image, self._config, now_ms)
        except LogOffline:  # its directory has just failed, and reports that itself
            return


def open_controller_data(
    config: BrokerConfig,
    listeners: Sequence[Endpoint],
    now_ms: int,
    on_failure: Callable[[LogDirectory], None],
) -> ControllerData:
    """Lock the metadata directory, format it if it is new, and lead its log with these addresses. Blocks.

    Raises DirectoryRefused, MetadataLogDamaged, StorageError and OSError, with the directory unlocked again.
    """
    path = config.metadata_log_dir.rstrip("/")
    directory = LogDirectory(path, LOCAL, on_failure=on_failure)
    found = inspect(LOCAL, [path], path, config.node_id, config.get_str("pybroker.cluster.id"))
    lock_all([directory])
    try:
        data = make_ready(
            LOCAL,
            [path],
            path,
            config.node_id,
            found,
            new_id=random_id,
            now_ms=now_ms,
            cluster_id=config.get_str("pybroker.cluster.id"),
            controllers=listeners,
            static_quorum=bool(config.get_list("controller.quorum.voters")),
        )
        metadata_log, loader = load_metadata(directory, config, now_ms)
        lead(config, data, metadata_log, loader, listeners, now_ms)
        directory.mark_used()
    except BaseException:
        directory.unlock()
        raise
    return ControllerData(config, data, metadata_log, loader.image)


def lead(
    config: BrokerConfig,
    data: NodeData,
    metadata_log: MetadataLog,
    loader: MetadataLoader,
    listeners: Sequence[Endpoint],
    now_ms: int,
) -> None:
    """Begin the next leader epoch of a metadata log whose directory is locked and formatted.

    The log then names the voter with these addresses, by which brokers find the controller.
    """
    directory = metadata_log.partition_log.directory
    ActiveLog(config, metadata_log, loader.image).lead(loader, now_ms, listeners)
    quorum = metadata_log.quorum
    if quorum.kraft_version:
        wanted = quorum_of(config.node_id, data.directory_ids[directory.path], listeners)
        if quorum.control_records() != wanted.control_records():
            metadata_log.name_voters(wanted, now_ms)
