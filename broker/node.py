"""The node's data at the start and at the end: directories taken and formatted, the metadata log read and led, logs
loaded.

The order, each step needing the one before it: look at meta.properties (nothing is touched if this node may not have
the data); lock the directories; format those that are empty; read the metadata log; begin its next leader epoch and
register; load the partitions' logs with their topics' configuration; set aside what no topic has any more. At the
end: give up leadership in the metadata, close all logs, and mark the directories as clean with the broker epoch by
which the next start is known to have missed nothing.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import suppress

from broker.config import BrokerConfig, Listener
from broker.formatting import METADATA_LOG, NodeData, formatted_with, inspect, make_ready
from broker.ids import random_id
from broker.metadata_log import TOPIC, TOPIC_ID, MetadataLog
from metadata import lifecycle
from metadata.features import MAX_METADATA_VERSION, METADATA_VERSION, MIN_METADATA_VERSION, SUPPORTED_FEATURES
from metadata.framing import MetadataRecord
from metadata.image import Endpoint, MetadataImage, ResourceType
from metadata.lifecycle import NodeIdentity
from metadata.replay import replay_all
from storage.checkpoints import PARTITION_METADATA, write_topic_id
from storage.errors import DirectoryRefused, LogOffline
from storage.fs import LOCAL, FileSystem
from storage.log_config import LONG_MAX, LogConfig
from storage.log_directory import LogDirectory
from storage.log_manager import LogManager
from storage.open_files import DEFAULT_CAPACITY
from storage.recovery import load_log

log = logging.getLogger(__name__)

SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


class Node:
    """What `open_node` opened. `directory_ids` are the ids of log directories by path."""

    def __init__(
        self, config: BrokerConfig, data: NodeData, logs: LogManager, metadata_log: MetadataLog, image: MetadataImage
    ) -> None:
        self.cluster_id = data.cluster_id
        self.directory_ids = data.directory_ids
        self.logs = logs
        self.metadata_log = metadata_log
        self.image = image
        self._node_id = config.node_id

    @property
    def broker_epoch(self) -> int:
        """The epoch of this start's registration."""
        return self.image.brokers[self._node_id].broker_epoch

    def close(self, now_ms: int) -> None:
        """Leave the cluster in order: all on the disk, all directories that work marked as clean."""
        metadata = self.metadata_log.partition_log
        if metadata.directory.is_online:
            records = lifecycle.leave(self.image, self._node_id)
            with suppress(LogOffline):  # its directory has just failed, which is told there
                self.metadata_log.append(records, now_ms)
                replay_all(self.image, records)
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
    """Bring the node's data up. `max_open_files`: of logs, at a time.

    Raises DirectoryRefused, MetadataLogDamaged, StorageError and OSError, with all directories unlocked again.
    """
    paths = [path.rstrip("/") for path in config.log_dirs]
    metadata_path = config.metadata_log_dir.rstrip("/")
    cluster_id = config.get_str("pybroker.cluster.id")
    found = inspect(fs, paths, metadata_path, config.node_id, cluster_id)
    logs = LogManager(paths, fs=fs, max_open_files=max_open_files, on_failure=on_failure)
    metadata_directory = next((each for each in logs.directories if each.path == metadata_path), None)
    others = []
    if metadata_directory is None:
        metadata_directory = LogDirectory(metadata_path, fs, on_failure=on_failure)
        others.append(metadata_directory)
    logs.lock(others)
    try:
        data = make_ready(
            fs,
            paths,
            metadata_path,
            config.node_id,
            found,
            new_id=random_id,
            now_ms=now_ms,
            cluster_id=cluster_id,
            controllers=endpoints(config.controller_listeners),
        )
        metadata_log, image = _open_metadata(config, metadata_directory, data, now_ms)
        config.apply_dynamic(
            image.config(ResourceType.BROKER, ""), image.config(ResourceType.BROKER, str(config.node_id))
        )
        logs.load(lambda topic: config.log_config(image.topic_config(topic)), now_ms)
        _set_strays_aside(logs, image, config.node_id)
        _adopt(logs, image)
        return Node(config, data, logs, metadata_log, image)
    except BaseException:
        logs.unlock()
        metadata_directory.unlock()
        raise


def _open_metadata(
    config: BrokerConfig, directory: LogDirectory, data: NodeData, now_ms: int
) -> tuple[MetadataLog, MetadataImage]:
    path = f"{directory.path}/{METADATA_LOG}"
    partition_log = load_log(directory, path, TOPIC, 0, _metadata_log_config(config), now_ms=now_ms, clean=False)
    if partition_log.topic_id is None:
        write_topic_id(directory.fs, path, TOPIC_ID)
    metadata_log = MetadataLog(partition_log)
    loader = metadata_log.load()
    image = loader.image
    _check_metadata_version(directory.path, image)
    _check_voters(directory.path, metadata_log, config.node_id)

    def append(records: list[MetadataRecord]) -> None:
        if records:
            metadata_log.append(records, now_ms)
            replay_all(image, records)

    metadata_log.become_leader(config.node_id, now_ms)
    if loader.in_transaction:
        append(lifecycle.abort_transaction(image))
    if METADATA_VERSION not in image.features:
        append(lifecycle.bootstrap_records(formatted_with(directory.fs, directory.path)))
        _check_metadata_version(directory.path, image)
    node = NodeIdentity(config.node_id, random_id())
    append(lifecycle.register_controller(image, node, endpoints(config.controller_listeners)))
    append(
        lifecycle.register_broker(
            image,
            node,
            metadata_log.end_offset,
            endpoints(config.advertised_listeners),
            config.rack,
            [data.directory_ids[each.rstrip("/")] for each in config.log_dirs],
        )
    )
    append(lifecycle.unfence_broker(image, config.node_id))
    return metadata_log, image


def _metadata_log_config(config: BrokerConfig) -> LogConfig:
    """Nothing goes by time or size: only what a snapshot stands for may."""
    test_size = config.get("internal.metadata.log.segment.bytes")
    return LogConfig(
        segment_bytes=test_size if isinstance(test_size, int) else config.get_int("metadata.log.segment.bytes"),
        segment_ms=config.get_int("metadata.log.segment.ms"),
        retention_ms=-1,
        retention_bytes=-1,
        max_message_bytes=2**31 - 1,
        message_timestamp_after_max_ms=LONG_MAX,
    )


def _check_metadata_version(path: str, image: MetadataImage) -> None:
    for name, level in image.features.items():
        lowest, highest = SUPPORTED_FEATURES.get(name, (0, 0))
        if name == METADATA_VERSION:
            lowest, highest = MIN_METADATA_VERSION, MAX_METADATA_VERSION
        if not lowest <= level <= highest:
            raise DirectoryRefused(path, f"is at {name} {level}, and this broker knows {lowest} to {highest}")


def _check_voters(path: str, metadata_log: MetadataLog, node_id: int) -> None:
    others = [voter for voter in metadata_log.voters if voter != node_id]
    if others:
        numbers = ", ".join(map(str, others))
        raise DirectoryRefused(path, f"belongs to a quorum with other controllers (nodes {numbers}), not served yet")


def endpoints(listeners: tuple[Listener, ...]) -> list[Endpoint]:
    """Listeners as the metadata tells them; what only a client's connection could tell is localhost there."""
    return [
        Endpoint(each.name, each.host or "localhost", each.port, SECURITY_PROTOCOLS[each.security_protocol])
        for each in listeners
    ]


def _set_strays_aside(logs: LogManager, image: MetadataImage, node_id: int) -> None:
    for topic, partition in list(_strays(logs, image, node_id)):
        log.warning("No topic has %s-%d any more: its directory is kept with the ending -stray", topic, partition)
        logs.set_aside(topic, partition, os.urandom(16).hex())


def _adopt(logs: LogManager, image: MetadataImage) -> None:
    """Give a log without its partition.metadata (a crash was faster) the topic id that it belongs to by its name.

    Apache Kafka would set it aside as a stray, with all its records.
    """
    for (name, _), partition_log in logs.logs.items():
        topic = image.topic(name)
        if topic is not None and partition_log.topic_id is None and partition_log.directory.is_online:
            try:
                write_topic_id(partition_log.directory.fs, partition_log.path, topic.topic_id)
            except OSError as error:
                partition_log.directory.fail(error)
                continue
            partition_log.topic_id = topic.topic_id
            partition_log.mark_unsynced(f"{partition_log.path}/{PARTITION_METADATA}")


def _strays(logs: LogManager, image: MetadataImage, node_id: int) -> Iterator[tuple[str, int]]:
    """Logs of topics that are not there (any more), or not under this id, or not with this partition on this node."""
    for (name, index), partition_log in logs.logs.items():
        topic = image.topic(name)
        registration = topic.partitions.get(index) if topic is not None else None
        if (
            topic is None
            or registration is None
            or node_id not in registration.replicas
            or partition_log.topic_id not in (None, topic.topic_id)
        ):
            yield name, index
