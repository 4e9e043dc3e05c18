"""Scan a log directory at the start: its partitions, deletions in progress, and how its last broker shut down."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress

import msgspec
from msgspec import field

from storage.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    TopicPartition,
    read_clean_shutdown,
    read_offsets,
)
from storage.directory_names import DirectoryKind, parse_name
from storage.log.directory import LogDirectory
from storage.log.stored_log import StoredLog
from storage.log_config import LogConfig
from storage.open_files import OUT_OF_DESCRIPTORS
from storage.recovery.clean_shutdown_manifest import (
    MANIFEST,
    CleanShutdownManifest,
    read_manifest,
    state_of,
)
from storage.recovery.job import Recovered, RecoveryJob, unchecked_bytes
from storage.recovery.order import has_small_files, is_in_order, opens_quickly
from storage.recovery.segment import Cut

#: The metadata log is not a log of a topic. The controller opens it.
METADATA_TOPIC = "__cluster_metadata"

#: Runs recovery jobs before the logs are opened. Returns the results of those that it ran, by path.
Recover = Callable[[list[RecoveryJob]], dict[str, Recovered]]


class FutureLog(msgspec.Struct, frozen=True):
    """A copy of a partition's log that will replace it (storage/moves/copy.py)."""

    directory: LogDirectory
    path: str
    topic: str
    partition: int


class LogDirScan(msgspec.Struct):
    """The result of scanning a log directory.

    - `clean`: the last broker shut down cleanly, so nothing has to be checked.
    - `recovery_points`, `start_offsets`: by topic and partition, from the checkpoint files.
    - `partitions`: paths by topic and partition.
    - `cleaned`: the partitions in the cleaner's checkpoint file.
    - `manifest`: the manifest of the last shutdown; None if there is none.
    - `logs`: the partitions' logs, with what is needed to open them.
    - `cuts`: what a recovery job cut off them.
    - `futures`: copies that have not replaced their partition.
    - `deleted`: directories that are being deleted.
    - `ignored`: directories that are not partitions in use.
    """

    directory: LogDirectory
    clean: bool
    recovery_points: dict[TopicPartition, int]
    start_offsets: dict[TopicPartition, int]
    partitions: dict[TopicPartition, str] = field(default_factory=dict)
    cleaned: Collection[TopicPartition] = ()
    manifest: CleanShutdownManifest | None = None
    logs: list[StoredLog] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)
    futures: list[FutureLog] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)

    def stored(
        self,
        config_of: Callable[[str], LogConfig],
        now_ms: int,
        expiration_ms: int,
        is_replicated: Callable[[str, int], bool],
    ) -> Iterator[StoredLog]:
        """Yield its logs with the values to open them. Raises OSError.

        `config_of` returns the configuration of a topic; `expiration_ms` is producer.id.expiration.ms.
        """
        manifest = self.manifest
        for key, path in self.partitions.items():
            topic, partition = key
            config = config_of(topic)
            may_wait = self._may_wait(key, config)
            state = state_of(self.directory.fs, path) if may_wait else None  # read before the file names
            topic_id = manifest.topic_id(key, state) if manifest is not None else None
            yield StoredLog(
                path,
                topic,
                partition,
                config,
                now_ms,
                clean=self.clean,
                in_order=topic_id is not None or (may_wait and self._is_in_order(key, path)),
                recovery_point=self.recovery_points.get(key, 0),
                log_start_offset=self.start_offsets.get(key, 0),
                producer_expiration_ms=expiration_ms,
                replicated=is_replicated(topic, partition),
                topic_id=topic_id,
                state=state,
            )

    def _may_wait(self, key: TopicPartition, config: LogConfig) -> bool:
        """Return whether a log can be opened later, if it is in order."""
        is_to_be_cleaned = config.compacted or key in self.cleaned  # a cleaner must know its clean offset at once
        return self.clean and key in self.recovery_points and not is_to_be_cleaned and opens_quickly(config)

    def _is_in_order(self, key: TopicPartition, path: str) -> bool:
        """Return whether the file names of a log are as a clean shutdown leaves them. Raises OSError."""
        fs, recovery_point = self.directory.fs, self.recovery_points[key]
        try:
            names = fs.names(path)
        except OSError as error:
            if error.errno in OUT_OF_DESCRIPTORS:
                return False  # unknown for this log; the scan continues with the others
            raise
        return is_in_order(names, recovery_point, self.start_offsets.get(key, 0)) and has_small_files(
            fs, path, names, recovery_point
        )

    def jobs(self) -> Iterator[RecoveryJob]:
        """Yield a recovery job for each log that must be checked. Raises OSError."""
        for log in self.logs if not self.clean else ():
            size_bytes = unchecked_bytes(self.directory.fs, log.path, log.recovery_point)
            yield RecoveryJob(log_dir=self.directory.path, log=log, size_bytes=size_bytes)

    def take(self, recovered: dict[str, Recovered]) -> None:
        """Take over the results of recovery jobs, by path."""
        for number, log in enumerate(self.logs):
            if log.path in recovered:
                self.logs[number] = log._replace(recovered=True)
                self.cuts += recovered[log.path].cuts
                self.directory.remarks += recovered[log.path].remarks


def scan_log_dirs(
    directories: Sequence[LogDirectory],
    config_of: Callable[[str], LogConfig],
    now_ms: int,
    expiration_ms: int,
    recover: Recover | None,
    is_replicated: Callable[[str, int], bool] = lambda topic, partition: False,
) -> list[LogDirScan]:
    """Scan the working directories and pass all recovery jobs to `recover`. A directory that fails goes offline."""
    found: list[LogDirScan] = []
    jobs: list[RecoveryJob] = []
    for directory in directories:
        if directory.is_online:
            try:
                found.append(scan_log_dir(directory))
                found[-1].logs += found[-1].stored(config_of, now_ms, expiration_ms, is_replicated)
                if recover is not None:
                    jobs += found[-1].jobs()
            except OSError as error:
                directory.fail(error)
    if recover is not None and jobs:
        recovered = recover(jobs)
        for each in found:
            each.take(recovered)
    return found


def scan_log_dir(directory: LogDirectory) -> LogDirScan:
    """Read what the last broker left and remove its clean shutdown mark, because a crash needs recovery from now on.

    Raises OSError.
    """
    fs, path = directory.fs, directory.path
    manifest = None
    broker_epoch = read_clean_shutdown(fs, path)
    if broker_epoch is not None:
        manifest = read_manifest(fs, path, broker_epoch)
        with suppress(IsADirectoryError):  # a directory of this name is not the manifest
            fs.remove(f"{path}/{MANIFEST}")
        fs.remove(f"{path}/{CLEAN_SHUTDOWN}")
        fs.sync_path(path)  # the removal must survive a power failure
    found = LogDirScan(
        directory,
        broker_epoch is not None,
        read_offsets(fs, f"{path}/{RECOVERY_POINTS}", directory.remarks),
        read_offsets(fs, f"{path}/{LOG_START_OFFSETS}", directory.remarks),
        cleaned=read_offsets(fs, f"{path}/{CLEANER_OFFSETS}", []),  # the cleaner reports problems with this file
        manifest=manifest,
    )
    for entry in fs.list(path):
        if not entry.is_directory:
            continue
        kind, topic, partition = parse_name(entry.name)
        if kind is DirectoryKind.DELETED:
            found.deleted.append(f"{path}/{entry.name}")
        elif kind is DirectoryKind.FUTURE:
            found.futures.append(FutureLog(directory, f"{path}/{entry.name}", topic, partition))
        elif kind is not DirectoryKind.PARTITION:
            found.ignored.append(f"{path}/{entry.name}")
        elif topic != METADATA_TOPIC:
            found.partitions[topic, partition] = f"{path}/{entry.name}"
    return found
