"""What a log directory has at the start: its partitions, what was being deleted, and how its last broker left it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from storage.checkpoints import (
    CLEAN_SHUTDOWN,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    TopicPartition,
    read_clean_shutdown,
    read_offsets,
)
from storage.directory_names import DirectoryKind, parse_name
from storage.log.directory import LogDirectory
from storage.log_config import LogConfig
from storage.recovery.job import Recovered, RecoveryJob, unchecked_bytes
from storage.recovery.stored_log import StoredLog

#: The metadata log is no log of a topic: its owner opens it.
METADATA_TOPIC = "__cluster_metadata"

#: Does jobs of recovery before the logs are opened; what became of those that are done, by path.
Recover = Callable[[list[RecoveryJob]], dict[str, Recovered]]


@dataclass(frozen=True, slots=True)
class FutureLog:
    """A copy of a partition's log that is to take its place one day (storage/moves/copy.py)."""

    directory: LogDirectory
    path: str
    topic: str
    partition: int


@dataclass(slots=True)
class FoundDirectory:
    """A log directory, looked into. `partitions` are paths by topic and partition; `clean`: nothing has to be checked.

    `futures` are copies that have not taken their partition's place, `deleted` are on their way out, `ignored` are not
    of a partition that is in use.
    """

    directory: LogDirectory
    clean: bool
    recovery_points: dict[TopicPartition, int]
    start_offsets: dict[TopicPartition, int]
    partitions: dict[TopicPartition, str] = field(default_factory=dict)
    futures: list[FutureLog] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)

    def logs(self, config_of: Callable[[str], LogConfig], now_ms: int, expiration_ms: int) -> Iterator[StoredLog]:
        """Its logs, with the values that `config_of` gives their topics and producer.id.expiration.ms."""
        for (topic, partition), path in self.partitions.items():
            yield StoredLog(
                path,
                topic,
                partition,
                config_of(topic),
                now_ms,
                clean=self.clean,
                recovery_point=self.recovery_points.get((topic, partition), 0),
                log_start_offset=self.start_offsets.get((topic, partition), 0),
                producer_expiration_ms=expiration_ms,
            )

    def jobs(self, logs: Iterable[StoredLog]) -> Iterator[RecoveryJob]:
        """What has to be checked of these logs. OSError."""
        for log in logs if not self.clean else ():
            size_bytes = unchecked_bytes(self.directory.fs, log.path, log.recovery_point)
            yield RecoveryJob(log_dir=self.directory.path, log=log, size_bytes=size_bytes)


def look_into(directory: LogDirectory) -> FoundDirectory:
    """Read what the last broker left, and remove its mark of a clean stop: a crash needs recovery now. OSError.

    Who is told how it was left (`was_left_clean`) leaves that mark, and what is no partition's, to who tells it.
    """
    fs, path = directory.fs, directory.path
    is_first = directory.was_left_clean is None
    if directory.was_left_clean is None:
        directory.was_left_clean = read_clean_shutdown(fs, path) is not None
        if directory.was_left_clean:  # and so does a power loss
            fs.remove(f"{path}/{CLEAN_SHUTDOWN}")
            fs.sync_path(path)
    found = FoundDirectory(
        directory,
        directory.was_left_clean,
        read_offsets(fs, f"{path}/{RECOVERY_POINTS}", directory.remarks),
        read_offsets(fs, f"{path}/{LOG_START_OFFSETS}", directory.remarks),
    )
    for entry in fs.list(path):
        if not entry.is_directory:
            continue
        kind, topic, partition = parse_name(entry.name)
        if not is_first and not topic:
            continue
        if topic and directory.owns is not None and not directory.owns(topic, partition):
            continue
        if kind is DirectoryKind.DELETED:
            found.deleted.append(f"{path}/{entry.name}")
        elif kind is DirectoryKind.FUTURE:
            found.futures.append(FutureLog(directory, f"{path}/{entry.name}", topic, partition))
        elif kind is not DirectoryKind.PARTITION:
            found.ignored.append(f"{path}/{entry.name}")
        elif topic != METADATA_TOPIC:
            found.partitions[topic, partition] = f"{path}/{entry.name}"
    return found
