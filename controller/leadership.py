"""The controller before and after the event loop runs: it loads the metadata log, leads it, and registers the broker.

At a start: `load_metadata` reads the log, `ActiveLog.lead` begins the next leader epoch and registers the controller,
`register_broker` and `unfence_broker` take the broker in. At a stop: `unregister_broker` fences it, and writes the last
snapshot. In between, controller.Controller owns the log.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from config import BrokerConfig
from controller.directory_checks import METADATA_LOG, has_metadata
from controller.endpoints import endpoints
from controller.formatting import formatted_with
from controller.metadata_log import TOPIC, TOPIC_ID, MetadataLog
from controller.metadata_retention import write_last_snapshot
from controller.metadata_snapshot import SnapshotId, read_snapshot, snapshots_in
from metadata import registration
from metadata.bulk_records import Changes
from metadata.features import METADATA_VERSION, unsupported_level
from metadata.image import Endpoint, MetadataImage
from metadata.loading import MetadataLoader
from metadata.registration import NodeIdentity, feature_levels
from metadata.replay import replay_all
from protocol.error_codes import ProtocolError
from protocol.records.errors import RecordsError
from runtime.ids import random_id
from storage.checkpoints import write_topic_id
from storage.errors import CorruptFile, DirectoryRefused, LogOffline
from storage.fs import FileSystem
from storage.log.directory import LogDirectory
from storage.log.partition_log import PartitionLog
from storage.log.stored_log import StoredLog
from storage.log_config import LONG_MAX, LogConfig
from storage.recovery.loading import load_log
from storage.recovery.segment import Cut

log = logging.getLogger(__name__)


def load_metadata(directory: LogDirectory, config: BrokerConfig, now_ms: int) -> tuple[MetadataLog, MetadataLoader]:
    """Return the metadata log and what it replays to. Writes nothing except what repairs the log.

    Raises DirectoryRefused where this version cannot lead it, MetadataLogDamaged, and the storage's errors.
    """
    if not has_metadata(directory.fs, directory.path):
        _check_formatted(directory)
    metadata_log = MetadataLog(open_metadata_log(directory, config, now_ms))
    loader = metadata_log.load()
    _check_features(directory.path, loader.image.features)
    if METADATA_VERSION not in loader.image.features:
        _check_formatted(directory)
    _check_voters(directory.path, metadata_log, config.node_id)
    return metadata_log, loader


def open_metadata_log(directory: LogDirectory, config: BrokerConfig, now_ms: int) -> PartitionLog:
    """Return the partition log with the metadata. Repairs it, and begins it at a snapshot that is beyond its end.

    Raises the storage's errors.
    """
    path = f"{directory.path}/{METADATA_LOG}"
    cuts: list[Cut] = []
    snapshots = snapshots_in(directory.fs, path) if directory.fs.exists(path) else []
    newest = snapshots[-1].end_offset if snapshots else 0  # records before it need not be complete
    directory.fs.make_directory(path)
    stored = StoredLog(path, TOPIC, 0, _metadata_log_config(config), now_ms, gapless_from=newest)
    partition_log = load_log(directory, stored, cuts)
    beyond = [each for each in snapshots if each.end_offset > partition_log.log_end_offset]
    intact = _newest_intact(directory.fs, path, beyond)
    if intact is not None:  # it has all records of the log and more
        partition_log.close_files()
        partition_log = load_log(directory, stored._replace(log_start_offset=intact), cuts)
    for cut in cuts:
        log.warning("%s", cut)
    if partition_log.topic_id is None:
        write_topic_id(directory.fs, path, TOPIC_ID)
    return partition_log


def _newest_intact(fs: FileSystem, path: str, snapshots: Sequence[SnapshotId]) -> int | None:
    """Return the end offset of the newest snapshot that is not damaged, or None."""
    for snapshot_id in reversed(snapshots):
        with suppress(CorruptFile, ProtocolError, RecordsError):
            read_snapshot(fs, f"{path}/{snapshot_id.file_name}")
            return snapshot_id.end_offset
    return None


class ActiveLog:
    """The metadata log as its leader appends to it, without an event loop."""

    def __init__(self, config: BrokerConfig, metadata_log: MetadataLog, image: MetadataImage) -> None:
        self._config = config
        self._log = metadata_log
        self._image = image
        #: Fresh at each start: a broker and a controller of the same node have the same.
        self._node = NodeIdentity(config.node_id, random_id())

    def _append(self, records: Sequence[Changes], now_ms: int) -> None:
        if records:
            self._log.append(records, now_ms)
            replay_all(self._image, records)

    def lead(self, loader: MetadataLoader, now_ms: int, listeners: Sequence[Endpoint] | None = None) -> None:
        """Begin the next leader epoch: abort what a former leader left open, bootstrap, register the controller.

        `listeners` are the controller's addresses; without them they are those of the configuration.
        """
        config, directory = self._config, self._log.partition_log.directory
        self._log.become_leader(config.node_id, now_ms)
        if loader.in_transaction:
            self._append(registration.abort_transaction(self._image), now_ms)
        if METADATA_VERSION not in self._image.features:
            formatted = formatted_with(directory.fs, directory.path)
            min_insync_replicas = config.get_int("min.insync.replicas")
            self._append(registration.bootstrap_records(formatted, min_insync_replicas), now_ms)
        if listeners is None:
            listeners = endpoints(config.controller_listeners)
        self._append(registration.register_controller(self._image, self._node, listeners), now_ms)

    def register_broker(self, directory_ids: Sequence[bytes], now_ms: int) -> None:
        """Register this node's broker, with the ids of its log directories. Its epoch is the offset of the record."""
        config = self._config
        registered = registration.register_broker(
            self._image,
            self._node,
            self._log.end_offset,
            endpoints(config.advertised_listeners),
            config.rack,
            directory_ids,
        )
        self._append(registered, now_ms)

    def unfence_broker(self, missing: Collection[tuple[bytes, int]], now_ms: int) -> None:
        """Let the broker lead partitions, except for those (topic id, partition) that its directories miss."""
        self._append(registration.unfence_broker(self._image, self._config.node_id, missing), now_ms)

    def leave(self, now_ms: int) -> None:
        """Fence the broker, and write the last snapshot. Raises OSError."""
        records = registration.leave(self._image, self._config.node_id)
        with suppress(LogOffline):  # its directory has just failed, and reports that itself
            self._append(records, now_ms)
            write_last_snapshot(self._log, self._image, self._config, now_ms)


def _metadata_log_config(config: BrokerConfig) -> LogConfig:
    """Retention by time or size is off: only records that a snapshot covers are removed."""
    test_size = config.get("internal.metadata.log.segment.bytes")
    return LogConfig(
        segment_bytes=test_size if isinstance(test_size, int) else config.get_int("metadata.log.segment.bytes"),
        segment_ms=config.get_int("metadata.log.segment.ms"),
        retention_ms=-1,
        retention_bytes=-1,
        max_message_bytes=2**31 - 1,
        message_timestamp_after_max_ms=LONG_MAX,
    )


def _check_formatted(directory: LogDirectory) -> None:
    """Check the feature levels that `ActiveLog.lead` will write first."""
    _check_features(directory.path, feature_levels(formatted_with(directory.fs, directory.path)))


def _check_features(path: str, levels: Mapping[str, int]) -> None:
    unsupported = unsupported_level(levels)
    if unsupported is not None:
        raise DirectoryRefused(path, f"is at {unsupported}")


_REMEDY = "To be a broker under them, set process.roles=broker and controller.quorum.bootstrap.servers"


def _check_voters(path: str, metadata_log: MetadataLog, node_id: int) -> None:
    others = [voter for voter in metadata_log.voters if voter != node_id]
    if others:
        numbers = ", ".join(map(str, others))
        raise DirectoryRefused(path, f"belongs to a quorum with other controllers (nodes {numbers}). {_REMEDY}")
