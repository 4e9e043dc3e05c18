"""Opens and closes the node's data: its log directories, the metadata log, and the logs of partitions.

Each step of the start needs the one before it:

1. Read meta.properties. Nothing is touched if this node may not have the data.
2. Lock the directories, and read the metadata log. Nothing is touched if it does not know a partition
   (unknown_partitions.py).
3. Format empty directories, unless the metadata misses partitions (missing_partitions.py).
4. Have the controller lead the metadata log, and register with it (controller/leadership.py).
5. Load the partitions' logs with their topics' configuration; set aside those of deleted topics and moved partitions.

The stop fences the broker, closes all logs, and marks the directories as clean with the broker epoch, by which the next
start knows that it has missed nothing.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

from broker.startup.log_dirs import StartDirectories, can_do_without, inspect_directories
from broker.startup.missing_partitions import (
    Missing,
    check_unformatted,
    find_missing,
    still_missing,
)
from broker.startup.topic_id_repair import assign_topic_id
from broker.startup.unknown_partitions import check_known, is_known
from config import BrokerConfig
from controller.endpoints import endpoints
from controller.formatting import NodeData, make_ready
from controller.leadership import ActiveLog, load_metadata
from controller.metadata_log import MetadataLog
from metadata.image import Endpoint, MetadataImage, ResourceType
from metadata.loading import MetadataLoader
from protocol.id_text import id_bytes
from runtime.ids import random_id
from storage.checkpoints import MetaProperties, read_topic_id
from storage.fs import LOCAL, FileSystem
from storage.log.directory import LogDirectory, lock_all
from storage.log.stored_log import StoredLog
from storage.log_manager import LogManager
from storage.open_files import DEFAULT_CAPACITY
from storage.recovery.job import Recovered, RecoveryJob
from storage.recovery.log_dir_scan import Recover

log = logging.getLogger(__name__)


class Node:
    """The node's data, opened by `open_node`.

    `directory_ids` are the ids of log directories by path; `missing`: see missing_partitions.py.
    """

    def __init__(
        self,
        config: BrokerConfig,
        data: NodeData,
        logs: LogManager,
        metadata_log: MetadataLog,
        controller: ActiveLog,
        image: MetadataImage,
        missing: Missing,
        deleted_topics: set[bytes],
    ) -> None:
        self.cluster_id = data.cluster_id
        self.directory_ids = data.directory_ids
        self.logs = logs
        self.metadata_log = metadata_log
        self.image = image
        self.missing = missing
        self.deleted_topics = deleted_topics
        self._controller = controller
        #: The epoch of this start's registration.
        self.broker_epoch = image.brokers[config.node_id].broker_epoch

    def close(self, now_ms: int) -> None:
        """Flush and close all logs, and mark the directories that work as clean."""
        metadata = self.metadata_log.partition_log
        if metadata.directory.is_online:
            metadata.directory.attempt(lambda: self._controller.leave(now_ms))
        self.logs.close(now_ms, broker_epoch=self.broker_epoch, others=[metadata])
        metadata.directory.unlock()


def open_node(
    config: BrokerConfig,
    now_ms: int,
    *,
    fs: FileSystem = LOCAL,
    max_open_files: int = DEFAULT_CAPACITY,
    on_failure: Callable[[LogDirectory], None] | None = None,
) -> Node:
    """Open the node's data. `max_open_files` limits the files that logs hold open.

    Raises DirectoryRefused, MetadataLogDamaged, StorageError and OSError, with all directories unlocked again.
    """
    logs = LogManager(
        config.log_dirs,
        fs=fs,
        max_open_files=max_open_files,
        on_failure=on_failure,
        on_remark=log_damage_report,
    )
    directories = inspect_directories(config, fs, logs, on_failure)
    lock_all([each for each in directories.usable if each not in directories.unformatted], directories.spared)
    try:
        return _open_locked(config, fs, logs, directories, now_ms)
    except BaseException:
        logs.unlock()
        directories.metadata.unlock()
        raise


def _open_locked(
    config: BrokerConfig, fs: FileSystem, logs: LogManager, directories: StartDirectories, now_ms: int
) -> Node:
    """Do the work of `open_node` once the directories are locked."""
    opened = open_metadata(config, fs, logs, directories, now_ms, endpoints(config.controller_listeners))
    data, metadata_log, loader, missing = opened
    if len(loader.image.brokers) > 1:
        from broker.startup.alone import check_alone  # most nodes have always been alone

        check_alone(metadata_log, loader.image, config.node_id)
    controller = ActiveLog(config, metadata_log, loader.image)
    controller.lead(loader, now_ms)
    own = [data.directory_ids[path] for each in config.log_dirs if (path := each.rstrip("/")) in data.directory_ids]
    controller.register_broker(own, now_ms)
    controller.unfence_broker(missing, now_ms)
    in_processes = fs is LOCAL
    load_logs(config, logs, loader.image, data.directory_ids, loader.deleted_topics, now_ms, in_processes=in_processes)
    for directory in logs.directories:
        directory.mark_used()
    return Node(config, data, logs, metadata_log, controller, loader.image, missing, loader.deleted_topics)


class OpenedMetadata(NamedTuple):
    """The metadata of a node that leads its log: the ids of its directories, the log, and what it replays to."""

    data: NodeData
    metadata_log: MetadataLog
    loader: MetadataLoader
    missing: Missing


def open_metadata(
    config: BrokerConfig,
    fs: FileSystem,
    logs: LogManager,
    directories: StartDirectories,
    now_ms: int,
    controllers: Sequence[Endpoint],
) -> OpenedMetadata:
    """Check the directories against the metadata log, and format new ones. Unformatted ones are locked here.

    `controllers` are this node's controller listeners. Raises the errors of `open_node`.
    """
    metadata = None
    missing: Missing = {}
    if directories.metadata.is_online and directories.metadata.path in directories.found:
        metadata = load_metadata(directories.metadata, config, now_ms)
        image = metadata[1].image
        online = [each for each in logs.directories if each.is_online]
        found = found_properties(online, directories).values()
        ids = [id_bytes(each.directory_id) for each in found if each.directory_id is not None]
        check_known(online, metadata[0], image, config.node_id, ids)
        in_use = found_properties(logs.directories, directories)
        missing = find_missing(fs, image, config.node_id, in_use)
        check_unformatted(missing, image, [each.path for each in directories.unformatted])
        missing = still_missing(missing, image, config.node_id, in_use)
        lock_all(directories.unformatted, directories.spared)
    data = make_ready(
        fs,
        [each.path for each in logs.directories if each.is_online],
        directories.metadata.path,
        config.node_id,
        found_properties(directories.usable, directories),
        new_id=random_id,
        now_ms=now_ms,
        cluster_id=config.get_str("pybroker.cluster.id"),
        controllers=controllers,
        can_do_without=partial(can_do_without, directories.spared),
    )
    metadata_log, loader = metadata or load_metadata(directories.metadata, config, now_ms)
    return OpenedMetadata(data, metadata_log, loader, missing)


def found_properties(directories: Sequence[LogDirectory], start: StartDirectories) -> dict[str, MetaProperties]:
    """Return meta.properties of those of `directories` that work and were formatted before this start."""
    paths = [each.path for each in directories if each.is_online]
    return {path: start.found[path] for path in paths if path in start.found}


def log_damage_report(line: str) -> None:
    """Log the damage that was found in a log directory."""
    log.warning("%s", line)


def load_logs(
    config: BrokerConfig,
    logs: LogManager,
    image: MetadataImage,
    directory_ids: Mapping[str, bytes],
    deleted_topics: set[bytes],
    now_ms: int,
    *,
    in_processes: bool = True,
) -> None:
    """Open the logs of topics as the metadata has them: with their configuration, and without strays.

    `in_processes`: recovery may use several processes. Raises DirectoryRefused.
    """
    config.apply_dynamic(image.config(ResourceType.BROKER, ""), image.config(ResourceType.BROKER, str(config.node_id)))
    logs.producer_expiration_ms = config.get_int("producer.id.expiration.ms")
    logs.load(
        lambda topic: config.log_config(image.topic_config(topic), topic),
        now_ms,
        _recovery(config) if in_processes else None,
        _places(image, config.node_id, directory_ids),
        may_wait=partial(_is_known, image, config.node_id),
    )
    for line in (*map(str, logs.cuts), *chain.from_iterable(each.remarks for each in logs.directories)):
        log_damage_report(line)
    _take_out_strays(logs, image, config.node_id, deleted_topics, now_ms)
    _adopt(logs, image)


def _places(image: MetadataImage, node_id: int, directory_ids: Mapping[str, bytes]) -> Callable[[str, int], str | None]:
    """Return a function from topic and partition to the path where the metadata has this node's replica."""
    paths = {directory_id: path for path, directory_id in directory_ids.items()}

    def assigned_dir_of(name: str, index: int) -> str | None:
        topic = image.topic(name)
        registration = topic.partitions.get(index) if topic is not None else None
        return None if registration is None else paths.get(registration.directory_of(node_id))

    return assigned_dir_of


def _recovery(config: BrokerConfig) -> Recover:
    def run(jobs: list[RecoveryJob]) -> dict[str, Recovered]:
        from broker.startup.recovery import recover  # for starts after an unclean stop only

        return recover(jobs, config.get_int("num.recovery.threads.per.data.dir"))

    return run


def _is_known(image: MetadataImage, node_id: int, directory: LogDirectory, stored: StoredLog) -> bool:
    """Return whether the metadata has a log under its name, on this node."""
    topic = image.topic(stored.topic)
    registration = topic.partitions.get(stored.partition) if topic is not None else None
    if topic is None or registration is None or node_id not in registration.replicas:
        return False
    try:
        return (stored.topic_id or read_topic_id(directory.fs, stored.path)) == topic.topic_id
    except OSError:  # unreadable now: trust the name; the id is checked when the log is opened
        return True


def _take_out_strays(
    logs: LogManager, image: MetadataImage, node_id: int, deleted_topics: set[bytes], now_ms: int
) -> None:
    """Finish deletions that a crash interrupted. Set other logs of deleted topics and of moved partitions aside.

    No others are left, except empty ones: the start has checked all partitions (unknown_partitions.py).
    """
    for topic, partition in list(_strays(logs, image, node_id)):
        unique = os.urandom(16).hex()
        if logs.logs[topic, partition].topic_id in deleted_topics:
            log.info("Topic %s is deleted: partition %d is removed now", topic, partition)
            logs.delete(topic, partition, unique, now_ms)
        else:
            log.warning(
                "Partition %s-%d was deleted, moved to another broker, or never created: its directory is kept with the"
                " ending -stray",
                topic,
                partition,
            )
            logs.set_aside(topic, partition, unique)


def _adopt(logs: LogManager, image: MetadataImage) -> None:
    """Give each log the topic id that its name has in the metadata (broker/startup/topic_id_repair.py)."""
    for (name, _), partition_log in logs.logs.items():
        topic = image.topic(name)
        if topic is not None and partition_log.topic_id != topic.topic_id and partition_log.directory.is_online:
            assign_topic_id(partition_log, topic.topic_id)


def _strays(logs: LogManager, image: MetadataImage, node_id: int) -> Iterator[tuple[str, int]]:
    """Yield logs whose topic, topic id or partition the metadata does not have on this node."""
    for (name, index), partition_log in logs.logs.items():
        topic = image.topic(name)
        registration = topic.partitions.get(index) if topic is not None else None
        if (
            topic is None
            or registration is None
            or node_id not in registration.replicas
            or not is_known(image, name, index, partition_log.topic_id)
        ):
            yield name, index
