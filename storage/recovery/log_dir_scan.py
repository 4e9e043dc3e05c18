"""What a log directory has at the start: its partitions, what was being deleted, and how its last broker left it."""

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
    NOTE,
    AsLeft,
    read_note,
    state_of,
)
from storage.recovery.job import Recovered, RecoveryJob, unchecked_bytes
from storage.recovery.order import is_in_order, is_opened_in_a_moment, is_read_in_a_moment
from storage.recovery.segment import Cut

#: The metadata log is no log of a topic: its owner opens it.
METADATA_TOPIC = "__cluster_metadata"

#: Does jobs of recovery before the logs are opened; what became of those that are done, by path.
Recover = Callable[[list[RecoveryJob]], dict[str, Recovered]]


class FutureLog(msgspec.Struct, frozen=True):
    """A copy of a partition's log that is to take its place one day (storage/moves/copy.py)."""

    directory: LogDirectory
    path: str
    topic: str
    partition: int


class FoundDirectory(msgspec.Struct):
    """A log directory, looked into. `partitions` are paths by topic and partition; `clean`: nothing has to be checked.

    `cleaned` are partitions that a cleaner knows, `logs` those of the partitions, `cuts` is what was cut off them when
    they were recovered beforehand. `as_left` knows which are as their stop left them; None: nobody does. `futures` are
    copies that have not taken their partition's place, `deleted` are on their way out, `ignored` are not of a partition
    that is in use.
    """

    directory: LogDirectory
    clean: bool
    recovery_points: dict[TopicPartition, int]
    start_offsets: dict[TopicPartition, int]
    partitions: dict[TopicPartition, str] = field(default_factory=dict)
    cleaned: Collection[TopicPartition] = ()
    as_left: AsLeft | None = None
    logs: list[StoredLog] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)
    futures: list[FutureLog] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)

    def stored(self, config_of: Callable[[str], LogConfig], now_ms: int, expiration_ms: int) -> Iterator[StoredLog]:
        """Its logs, with the values that `config_of` gives their topics and producer.id.expiration.ms. OSError."""
        as_left = self.as_left
        for key, path in self.partitions.items():
            topic, partition = key
            config = config_of(topic)
            may_wait = self._may_wait(key, config)
            state = state_of(self.directory.fs, path) if may_wait else None  # before its names are looked at
            topic_id = as_left.topic_id(key, state) if as_left is not None else None
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
                topic_id=topic_id,
                state=state,
            )

    def _may_wait(self, key: TopicPartition, config: LogConfig) -> bool:
        """Whether nobody has to know a log at once, if it is in order."""
        is_to_be_cleaned = config.compacted or key in self.cleaned  # a cleaner has to know how far it is clean
        return self.clean and key in self.recovery_points and not is_to_be_cleaned and is_opened_in_a_moment(config)

    def _is_in_order(self, key: TopicPartition, path: str) -> bool:
        """Whether a log is as a clean stop leaves it, by its names. OSError."""
        fs, recovery_point = self.directory.fs, self.recovery_points[key]
        try:
            names = fs.names(path)
        except OSError as error:
            if error.errno in OUT_OF_DESCRIPTORS:
                return False  # nobody knows; the others are looked at
            raise
        return is_in_order(names, recovery_point, self.start_offsets.get(key, 0)) and is_read_in_a_moment(
            fs, path, names, recovery_point
        )

    def jobs(self) -> Iterator[RecoveryJob]:
        """What has to be checked of its logs. OSError."""
        for log in self.logs if not self.clean else ():
            size_bytes = unchecked_bytes(self.directory.fs, log.path, log.recovery_point)
            yield RecoveryJob(log_dir=self.directory.path, log=log, size_bytes=size_bytes)

    def take(self, recovered: dict[str, Recovered]) -> None:
        """Some of its logs were recovered: by path what became of them."""
        for number, log in enumerate(self.logs):
            if log.path in recovered:
                self.logs[number] = log._replace(recovered=True)
                self.cuts += recovered[log.path].cuts
                self.directory.remarks += recovered[log.path].remarks


def look_into_all(
    directories: Sequence[LogDirectory],
    config_of: Callable[[str], LogConfig],
    now_ms: int,
    expiration_ms: int,
    recover: Recover | None,
) -> list[FoundDirectory]:
    """Look into those that work, and have `recover` do what it does of the recovery. One that fails goes offline."""
    found: list[FoundDirectory] = []
    jobs: list[RecoveryJob] = []
    for directory in directories:
        if directory.is_online:
            try:
                found.append(look_into(directory))
                found[-1].logs += found[-1].stored(config_of, now_ms, expiration_ms)
                if recover is not None:
                    jobs += found[-1].jobs()
            except OSError as error:
                directory.fail(error)
    if recover is not None and jobs:
        recovered = recover(jobs)
        for each in found:
            each.take(recovered)
    return found


def look_into(directory: LogDirectory) -> FoundDirectory:
    """Read what the last broker left, and remove its mark of a clean stop: a crash needs recovery now. OSError.

    Where another process has looked first, and told this one how it was left (`was_left_clean`), the mark and all that
    is no partition's are that one's business.
    """
    fs, path = directory.fs, directory.path
    is_first = directory.was_left_clean is None
    as_left = None
    if directory.was_left_clean is None:
        broker_epoch = read_clean_shutdown(fs, path)
        directory.was_left_clean = broker_epoch is not None
        if broker_epoch is not None:
            as_left = read_note(fs, path, broker_epoch)
            with suppress(IsADirectoryError):  # somebody else made it: it is no note
                fs.remove(f"{path}/{NOTE}")
            fs.remove(f"{path}/{CLEAN_SHUTDOWN}")
            fs.sync_path(path)  # and so does a power loss
    found = FoundDirectory(
        directory,
        directory.was_left_clean,
        read_offsets(fs, f"{path}/{RECOVERY_POINTS}", directory.remarks),
        read_offsets(fs, f"{path}/{LOG_START_OFFSETS}", directory.remarks),
        cleaned=read_offsets(fs, f"{path}/{CLEANER_OFFSETS}", []),  # what is wrong with it, the cleaner says
        as_left=as_left,
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
