"""The data of a member: its log directories, its copy of the metadata log, and the logs of its partitions.

A start goes in steps, with the controllers asked in between: `lock`, `format`, `open_metadata`, `load_logs`. Nothing is
written before the cluster id is known to be the controllers'. If they do not register this broker, `abandon` removes
what its first start has written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from broker.membership.observed_log import ObservedMetadataLog
from broker.startup.log_dirs import StartDirectories, inspect_directories
from broker.startup.missing_partitions import (
    Missing,
    check_unformatted,
    find_missing,
    find_unfinished_moves,
    still_missing,
)
from broker.startup.node import found_properties, load_logs, log_damage_report
from config import BrokerConfig
from config.membership import voter_ids
from controller.directory_checks import METADATA_LOG
from controller.leadership import open_metadata_log
from metadata.features import DIRECTORIES_LEVEL
from metadata.image import MetadataImage
from protocol.id_text import id_bytes, id_text
from runtime.ids import random_id
from storage.checkpoints import META_PROPERTIES, MetaProperties, read_clean_shutdown, write_meta_properties
from storage.errors import DirectoryRefused
from storage.fs import LOCAL
from storage.log.directory import LogDirectory, lock_all
from storage.log.offset_checkpoints import stored_high_watermarks
from storage.log_manager import LogManager

log = logging.getLogger(__name__)

NO_EPOCH = -1


class MemberData:
    """The data of one run. All methods block, and are called in a thread.

    Attributes:
        cluster_id: by meta.properties; None in new directories.
        previous_epoch: the broker epoch of the last run if it stopped cleanly (KIP-966), else -1.
        broker_epoch: that of this run; a clean stop writes it.
    """

    missing: Missing
    metadata_log: ObservedMetadataLog

    def __init__(
        self, config: BrokerConfig, now_ms: int, max_open_files: int, on_failure: Callable[[LogDirectory], None]
    ) -> None:
        self._config = config
        self._now_ms = now_ms
        self.logs = LogManager(
            config.log_dirs, max_open_files=max_open_files, on_failure=on_failure, on_remark=log_damage_report
        )
        self.directory_ids: Mapping[str, bytes] = {}
        self.missing = {}
        self.broker_epoch = NO_EPOCH
        self._deleted_topics: set[bytes] = set()
        self._stamped: list[str] = []
        self._directories: StartDirectories = inspect_directories(config, LOCAL, self.logs, on_failure)
        found = self._directories.found.values()
        self.cluster_id = next((each.cluster_id for each in found), None)
        self.previous_epoch = _previous_epoch(self.logs.directories)

    def lock(self) -> None:
        """Lock the directories. Raises DirectoryRefused."""
        lock_all(self._directories.usable, self._directories.spared)

    def abandon(self) -> None:
        """Unlock the directories of a start that has failed, without what a first start has written."""
        self._withdraw()
        self.logs.unlock()
        self._directories.metadata.unlock()

    def check_missing(self, image: MetadataImage) -> None:
        """Find partitions of directories that are missing.

        Raises DirectoryRefused if a new one may be their home, or if the controllers do not know the directories of
        replicas: then they could not replace the replicas of one that fails.
        """
        node_id, directories = self._config.node_id, self._directories
        if len(self._config.log_dirs) > 1 and image.metadata_version < DIRECTORIES_LEVEL:
            reason = "log.dirs has several directories. They need metadata.version 3.7-IV2 or higher"
            raise DirectoryRefused(directories.metadata.path, reason)
        in_use = found_properties(self.logs.directories, directories)
        missing = {
            **find_missing(LOCAL, image, node_id, in_use),
            **find_unfinished_moves(LOCAL, image, node_id, in_use),
        }
        check_unformatted(missing, image, [each.path for each in directories.unformatted])
        self.missing = still_missing(missing, image, node_id, in_use)

    def format(self, cluster_id: str, *, unformatted: bool = True) -> None:
        """Write meta.properties where it is missing; without `unformatted` only if the metadata directory is new.

        A member is no voter, and the feature levels are the cluster's, so that is all. Raises OSError.
        """
        directories, ids = self._directories, {}
        is_new = directories.metadata.path not in directories.found
        for directory in directories.usable:
            if directory.path in self.directory_ids:  # formatted by the first call
                ids[directory.path] = self.directory_ids[directory.path]
                continue
            properties = directories.found.get(directory.path)
            if properties is None or properties.directory_id is None:
                if not (unformatted or is_new):
                    continue
                properties = MetaProperties(cluster_id, self._config.node_id, id_text(random_id()))
                write_meta_properties(LOCAL, directory.path, properties)
                if is_new:
                    self._stamped.append(directory.path)
            assert properties.directory_id is not None
            ids[directory.path] = id_bytes(properties.directory_id)
        self.directory_ids = ids

    def open_metadata(self, now_ms: Callable[[], int]) -> ObservedMetadataLog:
        """Open the metadata log. Raises the storage's errors."""
        partition_log = open_metadata_log(self._directories.metadata, self._config, self._now_ms)
        self.metadata_log = ObservedMetadataLog(partition_log, now_ms, voter_ids(self._config.values))
        return self.metadata_log

    def _withdraw(self) -> None:
        """Remove the copy of the metadata log and meta.properties of a first start that the controllers have refused.

        Otherwise the directories would belong to the node id and the cluster of a wrong configuration. They had no
        data before. Directories that were formatted before this start, or whose broker is registered, stay as they are.
        """
        if self.broker_epoch != NO_EPOCH or not self._stamped:
            return
        metadata_log = f"{self._directories.metadata.path}/{METADATA_LOG}"
        try:
            if LOCAL.exists(metadata_log):
                for name in LOCAL.names(metadata_log):
                    LOCAL.remove(f"{metadata_log}/{name}")
                LOCAL.remove_directory(metadata_log)
            for path in self._stamped:  # last: a directory that has a metadata log needs it
                LOCAL.remove(f"{path}/{META_PROPERTIES}")
        except OSError as error:
            log.warning("The files of a start that was refused cannot be removed: %s", error)

    @property
    def metadata_directory_id(self) -> bytes:
        """The id of the directory with the metadata log."""
        return self.directory_ids[self._directories.metadata.path]

    @property
    def log_directory_ids(self) -> list[bytes]:
        """The ids of the log directories that work, without one that has only metadata."""
        return [
            self.directory_ids[each.path]
            for each in self.logs.directories
            if each.is_online and each.path in self.directory_ids
        ]

    def load_logs(self, image: MetadataImage) -> None:
        """Open the logs of partitions, as the image has them. Raises DirectoryRefused.

        As in Apache Kafka, a log without a topic is kept as `-stray`, also that of a topic that was deleted while this
        broker was down, unless this node is the controller, too.
        """
        self.logs.is_replicated = lambda topic, index: _has_others(image, topic, index)
        load_logs(self._config, self.logs, image, self.directory_ids, self._deleted_topics, self._now_ms)
        committed = stored_high_watermarks(self.logs.directories)
        for (topic, index), found in self.logs.logs.items():
            if _has_others(image, topic, index):
                found.begin_replication(committed.get((topic, index), found.log_start_offset))
        for directory in self.logs.directories:
            directory.mark_used()

    def close(self, now_ms: int) -> None:
        """Flush and close all logs, and mark the directories that work as clean if the broker was registered."""
        self.logs.close(
            now_ms,
            broker_epoch=self.broker_epoch,
            others=[self.metadata_log.partition_log],
            mark_clean=self.broker_epoch != NO_EPOCH,
        )
        self._directories.metadata.unlock()


def _has_others(image: MetadataImage, topic: str, index: int) -> bool:
    """Return whether a partition has replicas beside this broker's."""
    found = image.topic(topic)
    registration = None if found is None else found.partitions.get(index)
    return registration is not None and len(registration.replicas) > 1


def _previous_epoch(directories: list[LogDirectory]) -> int:
    """Return the broker epoch that all directories were shut down with, or -1."""
    epochs = {read_clean_shutdown(each.fs, each.path) for each in directories if each.is_online}
    (epoch,) = epochs if len(epochs) == 1 else (None,)
    return NO_EPOCH if epoch is None else epoch
