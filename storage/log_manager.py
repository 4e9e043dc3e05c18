"""All logs of a broker, in one or several log directories: found at the start, made, deleted, flushed, closed.

Owned by the event loop. For the background thread it makes tasks (tasks.py): what is due to be flushed, removed,
written to checkpoint files. Times are arguments; nothing here asks a clock.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count

from storage.checkpoints import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    TopicPartition,
    format_offsets,
    read_clean_shutdown,
    read_offsets,
    write_clean_shutdown,
    write_topic_id,
)
from storage.directory_names import DirectoryKind, delete_name, parse_name, stray_name
from storage.errors import DirectoryRefused, LogOffline
from storage.fs import LOCAL, FileSystem
from storage.log_config import LONG_MAX, LogConfig
from storage.log_directory import LogDirectory, lock_all
from storage.open_files import DEFAULT_CAPACITY, OpenFiles
from storage.partition_log import PartitionLog
from storage.producer_state import DEFAULT_EXPIRATION_MS
from storage.recovery import load_log
from storage.retention import expired_segments, remove_segments
from storage.tasks import FlushTask, RemoveTask, RenameTask, Task, WriteTask

#: The metadata log is no log of a topic: its owner opens it by `open_log`.
METADATA_TOPIC = "__cluster_metadata"
#: fsyncs at a time when the broker stops.
_FLUSHES_AT_ONCE = 16


class LogManager:
    """`directories` in the order of log.dirs; `logs` by (topic, partition), those of offline directories too.

    `on_failure` is called, on the loop, with each directory that fails.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        fs: FileSystem = LOCAL,
        max_open_files: int = DEFAULT_CAPACITY,
        on_failure: Callable[[LogDirectory], None] | None = None,
    ) -> None:
        files = OpenFiles(fs, max_open_files)
        self.directories = [LogDirectory(path.rstrip("/"), fs, files, on_failure=on_failure) for path in paths]
        self.logs: dict[TopicPartition, PartitionLog] = {}
        #: producer.id.expiration.ms
        self.producer_expiration_ms = DEFAULT_EXPIRATION_MS
        #: Names in log directories that are no partition's, left alone.
        self.ignored: list[str] = []
        self._fs = fs
        self._removals: list[tuple[int, int, LogDirectory, Sequence[str]]] = []
        self._sequence = count()

    # -- start and stop ----------------------------------------------------------------------------------------------

    def lock(self, others: Sequence[LogDirectory] = ()) -> None:
        """Take all directories, and `others` with them. DirectoryRefused: one is not to be had; then none is taken."""
        lock_all((*self.directories, *others))

    def unlock(self) -> None:
        for directory in self.directories:
            directory.unlock()

    def load(self, config_of: Callable[[str], LogConfig], now_ms: int) -> None:
        """Open all logs; `config_of(topic)` gives a topic's values. A directory that fails meanwhile goes offline.

        DirectoryRefused: two directories have the same partition, and nobody knows which of them is the right one.
        """
        for directory in self.directories:
            try:
                self._load_directory(directory, config_of, now_ms)
            except OSError as error:
                directory.fail(error)

    def _load_directory(self, directory: LogDirectory, config_of: Callable[[str], LogConfig], now_ms: int) -> None:
        fs, path = self._fs, directory.path
        clean = read_clean_shutdown(fs, path) is not None
        # From here on a crash needs recovery again.
        fs.remove(f"{path}/{CLEAN_SHUTDOWN}")
        recovery_points = read_offsets(fs, f"{path}/{RECOVERY_POINTS}")
        start_offsets = read_offsets(fs, f"{path}/{LOG_START_OFFSETS}")
        for entry in fs.list(path):
            if not entry.is_directory:
                continue
            kind, topic, partition = parse_name(entry.name)
            if kind is DirectoryKind.DELETED:
                self._schedule(now_ms, directory, [f"{path}/{entry.name}"])
            elif kind is not DirectoryKind.PARTITION:
                self.ignored.append(f"{path}/{entry.name}")
            elif topic != METADATA_TOPIC:
                twin = self.logs.get((topic, partition))
                if twin is not None:
                    raise DirectoryRefused(f"{path}/{entry.name}", f"is there twice, also as {twin.path}")
                log = load_log(
                    directory,
                    f"{path}/{entry.name}",
                    topic,
                    partition,
                    config_of(topic),
                    now_ms=now_ms,
                    clean=clean,
                    recovery_point=recovery_points.get((topic, partition), 0),
                    log_start_offset=start_offsets.get((topic, partition), 0),
                    producer_expiration_ms=self.producer_expiration_ms,
                )
                self._add(log)

    def open_log(self, topic: str, partition: int, config: LogConfig, now_ms: int) -> PartitionLog:
        """A log that is not among `logs`, in the first directory, with all its batches checked: the metadata log."""
        directory = self.directories[0]
        path = f"{directory.path}/{topic}-{partition}"
        try:
            return load_log(directory, path, topic, partition, config, now_ms=now_ms, clean=False)
        except OSError as error:
            raise directory.fail(error) from error

    def close(self, now_ms: int, *, broker_epoch: int = -1, others: Sequence[PartitionLog] = ()) -> None:
        """Write everything, and mark the directories whose stop was clean. `others`: logs opened by `open_log`."""
        logs = [log for log in (*self.logs.values(), *others) if log.directory.is_online and not log.closed]
        for log in logs:
            _try(log.directory, log.complete)
        # Each flush waits for the disk, which does many at once as fast as one; but each holds its files open.
        with ThreadPoolExecutor(_FLUSHES_AT_ONCE) as pool:
            for start in range(0, len(logs), _FLUSHES_AT_ONCE):
                some = logs[start : start + _FLUSHES_AT_ONCE]
                flushes = [task for log in some if (task := self.flush_task(log, now_ms)) is not None]
                deque(pool.map(FlushTask.run, flushes), maxlen=0)
                for task in flushes:
                    task.apply()
                for log in some:
                    log.close_files()
        for directory in self.directories:
            for checkpoint in self.checkpoint_tasks(directory):
                checkpoint.run()
                checkpoint.apply()
            if directory.is_online:
                _try(directory, partial(write_clean_shutdown, self._fs, directory.path, broker_epoch))
        self.unlock()

    # -- logs --------------------------------------------------------------------------------------------------------

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        return self.logs.get((topic, partition))

    def create(
        self,
        topic: str,
        partition: int,
        topic_id: bytes,
        config: LogConfig,
        now_ms: int,
        *,
        is_new: bool = True,
    ) -> PartitionLog:
        """The log, made in the directory with the fewest if there is none. `topic_id` has 16 bytes.

        LogOffline: no directory works; or it lies, or as it is not new may lie, in a directory that does not.
        """
        log = self.logs.get((topic, partition))
        if log is not None:
            if log.directory.failure is not None:
                raise LogOffline(log.path, log.directory.failure)
            return log
        online = [directory for directory in self.directories if directory.is_online]
        failed = next((directory for directory in self.directories if not directory.is_online), None)
        if not online or (failed is not None and not is_new):
            assert failed is not None
            raise LogOffline(failed.path, failed.failure or "")
        directory = min(online, key=lambda each: each.log_count)
        path = f"{directory.path}/{topic}-{partition}"
        try:
            self._fs.make_directory(path)
            write_topic_id(self._fs, path, topic_id)
            log = load_log(
                directory,
                path,
                topic,
                partition,
                config,
                now_ms=now_ms,
                clean=False,
                producer_expiration_ms=self.producer_expiration_ms,
            )
        except OSError as error:
            raise directory.fail(error) from error
        log.mark_unsynced(f"{path}/partition.metadata")
        log.mark_unsynced(directory.path)
        self._add(log)
        return log

    def _add(self, log: PartitionLog) -> None:
        self.logs[log.topic, log.partition] = log
        log.directory.log_count += 1

    def _take_out(self, topic: str, partition: int) -> PartitionLog | None:
        log = self.logs.pop((topic, partition), None)
        if log is not None:
            log.close_files()
            log.directory.log_count -= 1
        return log

    def delete(self, topic: str, partition: int, unique: str, now_ms: int) -> None:
        """Take the log out; its directory is renamed, and goes after file.delete.delay.ms. `unique`: 32 hex digits."""
        log = self._take_out(topic, partition)
        if log is None:
            return
        directory = log.directory
        path = f"{directory.path}/{delete_name(topic, partition, unique)}"
        if directory.is_online:
            try:
                self._fs.rename(log.path, path)
            except OSError as error:
                directory.fail(error)
            else:
                self._schedule(now_ms + log.config.file_delete_delay_ms, directory, [path])

    def set_aside(self, topic: str, partition: int, unique: str) -> None:
        """Take out a log that no topic has any more; its directory is kept as `-stray` for people to decide about."""
        log = self._take_out(topic, partition)
        if log is None:
            return
        try:
            self._fs.rename(log.path, f"{log.directory.path}/{stray_name(topic, partition, unique)}")
        except OSError as error:
            log.directory.fail(error)

    # -- work for the background thread ------------------------------------------------------------------------------

    def flush_task(self, log: PartitionLog, now_ms: int) -> FlushTask | None:
        """Force all of a log to the disk; None when it is there."""
        if log.recovery_point >= log.log_end_offset and not log.unsynced:
            return None
        return FlushTask(log, now_ms, with_active=True)

    def flush_tasks(self, now_ms: int) -> Iterator[Task]:
        """What has to be forced to the disk now: rolled segments, small files, and logs whose flush.ms is over.

        Made while one iterates: each holds files open until it is run.
        """
        for directory in self.directories:
            for waiting in list(directory.needs_flush):
                if waiting in directory.needs_flush and directory.is_online:
                    yield FlushTask(waiting, now_ms, with_active=False)
        for log in list(self.logs.values()):
            if (
                log.config.flush_ms < LONG_MAX
                and log.recovery_point < log.log_end_offset
                and now_ms - log.last_flush_ms >= log.config.flush_ms
                and log.directory.is_online
                and not log.closed
            ):
                yield FlushTask(log, now_ms, with_active=True)

    def retention_tasks(self, now_ms: int) -> Iterator[Task]:
        """Take expired segments out, log by log as one iterates, so that the loop can do other things in between."""
        for log in list(self.logs.values()):
            if not log.directory.is_online or log.closed:
                continue
            try:
                paths = remove_segments(log, expired_segments(log, now_ms), now_ms)
            except OSError as error:
                log.directory.fail(error)
                continue
            if paths:
                yield RenameTask(log, paths, self._removal(log, now_ms))

    def _removal(self, log: PartitionLog, now_ms: int) -> Callable[[Sequence[str]], None]:
        due_ms = now_ms + log.config.file_delete_delay_ms
        return lambda paths: self._schedule(due_ms, log.directory, paths)

    def _schedule(self, due_ms: int, directory: LogDirectory, paths: Sequence[str]) -> None:
        heapq.heappush(self._removals, (due_ms, next(self._sequence), directory, paths))

    def removal_tasks(self, now_ms: int) -> list[Task]:
        """Remove files and directories whose time of grace is over."""
        tasks: list[Task] = []
        while self._removals and self._removals[0][0] <= now_ms:
            _, _, directory, paths = heapq.heappop(self._removals)
            if directory.is_online:
                tasks.append(RemoveTask(directory, paths))
        return tasks

    def checkpoint_tasks(
        self,
        only: LogDirectory | None = None,
        names: Collection[str] = (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS),
    ) -> list[Task]:
        """Write recovery points, log start offsets and high watermarks, or those in `names`; of what works."""
        tasks: list[Task] = []
        for directory in self.directories if only is None else (only,):
            if not directory.is_online:
                continue
            logs = [(key, log) for key, log in self.logs.items() if log.directory is directory]
            files = {
                RECOVERY_POINTS: {key: log.recovery_point for key, log in logs},
                LOG_START_OFFSETS: {
                    key: log.log_start_offset for key, log in logs if log.log_start_offset > log.segments[0].base_offset
                },
                HIGH_WATERMARKS: {key: log.high_watermark for key, log in logs},
            }
            for name in names:
                offsets = files[name]
                tasks.append(WriteTask(directory, f"{directory.path}/{name}", format_offsets(offsets)))
        return tasks

    def expire_producers(self, now_ms: int) -> None:
        """Forget producers that were silent for producer.id.expiration.ms."""
        for log in self.logs.values():
            log.producer_state.expiration_ms = self.producer_expiration_ms
            log.producer_state.remove_expired(now_ms)


def _try(directory: LogDirectory, step: Callable[[], None]) -> None:
    try:
        step()
    except OSError as error:
        directory.fail(error)
