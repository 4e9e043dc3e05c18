"""The logs of a broker in one or several log directories: load, create, delete, flush, close.

The event loop owns the manager. For the background thread it creates tasks (log/tasks.py) that flush, remove files and
write checkpoint files. Times are arguments; no function reads a clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from itertools import chain
from uuid import uuid4

from storage.checkpoints import (
    LOG_START_OFFSETS,
    TopicPartition,
    read_topic_id,
    write_clean_shutdown,
)
from storage.cleaner.output import CleanedSegment
from storage.cleaner.swap import SwapInTask
from storage.directory_names import delete_name, stray_name
from storage.errors import LogOffline
from storage.fs import LOCAL, FileSystem
from storage.log.closing import close_logs
from storage.log.directory import LogDirectory, choose_directory, lock_all
from storage.log.flushing import full_flush, overdue_flushes, small_file_flushes
from storage.log.offset_checkpoints import OFFSET_CHECKPOINTS, OffsetCheckpoints
from storage.log.partition_log import PartitionLog
from storage.log.removals import Removals
from storage.log.retention import remove_expired
from storage.log.stored_log import StoredLog
from storage.log.tasks import FlushTask, RenameTask, Task
from storage.log_config import LogConfig
from storage.moves.duplicate_dirs import DuplicateDecision, orphan_copy, settle_duplicates, without_lost_segments
from storage.open_files import DEFAULT_CAPACITY, OpenFiles
from storage.producers.state import DEFAULT_EXPIRATION_MS
from storage.recovery.clean_shutdown_manifest import write_manifest
from storage.recovery.loading import create_log
from storage.recovery.log_dir_scan import FutureLog, Recover, scan_log_dirs
from storage.recovery.segment import Cut
from storage.unopened_logs import UnopenedLogs


class LogManager:
    """All logs of a broker.

    `directories` is in the order of log.dirs. `logs` is by (topic, partition) and includes the logs of offline
    directories. The event loop calls `on_failure` with each directory that fails, and `on_remark` with one line for
    each damage that was found in a log that was opened after the start.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        fs: FileSystem = LOCAL,
        max_open_files: int = DEFAULT_CAPACITY,
        on_failure: Callable[[LogDirectory], None] | None = None,
        on_remark: Callable[[str], None] = lambda line: None,
    ) -> None:
        files = OpenFiles(fs, max_open_files)
        names = [path.rstrip("/") for path in paths]
        self.directories = [LogDirectory(name, fs, files, on_failure=on_failure) for name in names]
        self.logs: dict[TopicPartition, PartitionLog] = {}
        #: producer.id.expiration.ms
        self.producer_expiration_ms = DEFAULT_EXPIRATION_MS
        #: Names in log directories that are not partitions. They are left alone.
        self.ignored: list[str] = []
        #: Copies that were found at the start and have not replaced their partition.
        self.futures: list[FutureLog] = []
        #: The directory for a partition that is created later.
        self.preferred: dict[TopicPartition, LogDirectory] = {}
        #: Returns the first offset of a log that a reader still needs, if records are held for readers, else None.
        self.unread_from: Callable[[PartitionLog], int | None] = lambda log: None
        #: Called with a log whose start retention has raised.
        self.on_start_raised: Callable[[PartitionLog], None] = lambda log: None
        #: Whether a partition has other replicas (`StoredLog.replicated`).
        self.is_replicated: Callable[[str, int], bool] = lambda topic, partition: False
        #: The bytes that recovery cut off.
        self.cuts: list[Cut] = []
        #: Logs that are not open yet or cannot be opened. `open` moves them to `logs`.
        self.unopened = UnopenedLogs(self.cuts)
        #: For truncations (log/truncation.py).
        self.checkpoints = OffsetCheckpoints(self.logs, self.unopened)
        self.removals = Removals()
        self._fs = fs
        self._on_remark = on_remark

    # -- start and stop ----------------------------------------------------------------------------------------------

    def lock(self, others: Sequence[LogDirectory] = ()) -> None:
        """Lock all directories, and `others` too.

        Raises DirectoryRefused if one is unavailable; then none is locked.
        """
        lock_all((*self.directories, *others))

    def unlock(self) -> None:
        for directory in self.directories:
            directory.unlock()

    def load(
        self,
        config_of: Callable[[str], LogConfig],
        now_ms: int,
        recover: Recover | None = None,
        assigned_dir_of: Callable[[str, int], str | None] = lambda topic, partition: None,
        *,
        may_wait: Callable[[LogDirectory, StoredLog], bool] = lambda directory, stored: False,
    ) -> None:
        """Open all logs, except clean ones for which `may_wait` is true. A directory that fails goes offline.

        `config_of(topic)` returns a topic's configuration. `assigned_dir_of(topic, partition)` returns the path of the
        log directory that the metadata assigns to a partition.

        `recover` gets all logs that need recovery after an unclean shutdown, and may recover some or all of them
        beforehand. Logs that cannot be opened are in `unopened.refused`; what was cut off other logs is in `cuts`.

        Raises DirectoryRefused if two directories have the same partition with different records and `assigned_dir_of`
        does not decide between them. Raises LogOffline if they cannot be compared because no descriptor is free.
        """
        found = scan_log_dirs(
            self.directories, cache(config_of), now_ms, self.producer_expiration_ms, recover, self.is_replicated
        )
        copies = Counter(chain.from_iterable(each.partitions for each in found))
        duplicates: list[PartitionLog] = []
        for each in found:
            self.cuts += each.cuts
            if each.deleted:
                self.removals.add(now_ms, each.directory, each.deleted, partitions=True)
            self.ignored += each.ignored
            self.futures += each.futures
            for stored in each.logs:
                if each.directory.failure is not None:
                    break
                if not (is_alone := copies[stored.topic, stored.partition] == 1):
                    stored = without_lost_segments(each.directory, stored)
                has_other = (stored.topic, stored.partition) in self.logs
                # The high watermark of a replicated log is not that of its end.
                waits = not stored.replicated and may_wait(each.directory, stored)
                log = self.unopened.load(each.directory, stored, is_alone=is_alone, may_wait=waits, has_other=has_other)
                if log is not None and has_other:
                    duplicates.append(log)
                elif log is not None:
                    self.add(log)
        if duplicates:
            self._settle(duplicates, assigned_dir_of, now_ms)

    def open(self, topic: str, partition: int) -> PartitionLog | None:
        """Return the log, after opening it if necessary; None if there is none.

        Raises LogOffline as `UnopenedLogs.open` does.
        """
        key = topic, partition
        unopened = self.unopened.get(key)
        if unopened is None:
            return self.logs.get(key)
        with self._reporting(unopened.directory):
            log = self.unopened.open(key)
        self.add(log)
        return log

    @contextmanager
    def _reporting(self, directory: LogDirectory) -> Iterator[None]:
        """Report each cut and remark that the block adds, once."""
        cuts, remarks = len(self.cuts), len(directory.remarks)
        try:
            yield
        finally:
            for line in (*map(str, self.cuts[cuts:]), *directory.remarks[remarks:]):
                self._on_remark(line)

    def _settle(
        self, duplicates: list[PartitionLog], assigned_dir_of: Callable[[str, int], str | None], now_ms: int
    ) -> None:
        """Keep one log of each partition that was found twice.

        The other log is removed as usual, once the kept one is on the disk.
        """
        settled: list[DuplicateDecision] = []
        for log in duplicates:
            key = log.topic, log.partition
            settled.append(settle_duplicates(self.logs[key], log, assigned_dir_of(*key)))
            if settled[-1].kept is log:
                self.replace(log)
        tasks = [self.flush_task(each.kept, now_ms) for each in settled if each.kept.directory.is_online]
        for task in (*tasks, *self.checkpoint_tasks(names=[LOG_START_OFFSETS])):
            if task is not None:
                task.run()
                task.apply()
        for kept, discarded, is_part in settled:
            discarded.close_files()
            if not (kept.directory.is_online and discarded.directory.is_online):
                continue
            if is_part:
                self.retire(discarded, now_ms)
            else:
                discarded.directory.remarks.append(
                    f"{discarded.path}: renamed to -stray, because the log in use has other records: {kept.path}"
                )
                self._keep_as_stray(
                    discarded.directory, discarded.path, discarded.topic, discarded.partition, uuid4().hex
                )

    def close(
        self, now_ms: int, *, broker_epoch: int = -1, others: Sequence[PartitionLog] = (), mark_clean: bool = True
    ) -> None:
        """Write everything, close all logs, and mark the directories that were shut down cleanly.

        `others` are logs that are not in `logs`.
        """
        self.unopened.closed = True
        close_logs([*self.logs.values(), *others], now_ms)
        for directory in self.directories:
            for checkpoint in self.checkpoints.tasks(directory):
                checkpoint.run()
                checkpoint.apply()
            if mark_clean and directory.is_online and self.unopened.all_were_closed(directory):
                if broker_epoch >= 0:
                    left = self.unopened.closed_logs(directory, self.logs)
                    with suppress(OSError):  # without the file the next start inspects each log
                        write_manifest(directory, broker_epoch, self.checkpoints.offsets(directory), left)
                directory.attempt(partial(write_clean_shutdown, self._fs, directory.path, broker_epoch))
        self.unlock()

    # -- logs --------------------------------------------------------------------------------------------------------

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
        """Return the log of a partition; create it if it does not exist. `topic_id` has 16 bytes.

        A directory of the same name that belongs to another topic is renamed to `-stray`, and reported: its deletion
        was missed, as it was not in use. Raises LogOffline if no directory works, if the log is in a failed directory,
        or if it is not new and may be in a failed directory.
        """
        log = self.open(topic, partition)
        if log is not None:
            if log.directory.failure is not None:
                raise LogOffline(log.path, log.directory.failure)
            return log
        directory = choose_directory(self.directories, self.preferred.pop((topic, partition), None), is_new)
        with directory.offline_on_error():
            future = orphan_copy(self.futures, topic, partition, topic_id)
        if future is not None:
            directory = future.directory
        path = f"{directory.path}/{topic}-{partition}"
        with directory.offline_on_error():
            found_id = read_topic_id(self._fs, path)
        if found_id not in (None, topic_id):
            self._keep_as_stray(directory, path, topic, partition, uuid4().hex)
            if directory.failure is not None:
                raise LogOffline(path, directory.failure)
            self._on_remark(f"{path}: renamed to -stray, because it is of another topic, which was not in use")
        expiration_ms = self.producer_expiration_ms
        stored = StoredLog(path, topic, partition, config, now_ms, producer_expiration_ms=expiration_ms)
        with directory.offline_on_error():
            forgotten = self.checkpoints.forget_deleted(directory)
            log = create_log(directory, stored, topic_id, None if future is None else future.path)
        for written in forgotten:
            log.mark_unsynced(written)
        self.add(log)
        return log

    def add(self, log: PartitionLog) -> None:
        """Add an open log to `logs`."""
        self.logs[log.topic, log.partition] = log
        log.directory.log_count += 1

    def _take_out(self, topic: str, partition: int) -> tuple[LogDirectory, str, int] | None:
        """Remove a log from the manager, also a refused one. Return its directory, path and file.delete.delay.ms."""
        log = self.logs.pop((topic, partition), None)
        if log is not None:
            log.close_files()
            log.directory.log_count -= 1
            return log.directory, log.path, log.config.file_delete_delay_ms
        unopened = self.unopened.take((topic, partition))
        if unopened is None:
            return None
        return unopened.directory, unopened.stored.path, unopened.stored.config.file_delete_delay_ms

    def configure(self, topic: str, partition: int, config: LogConfig) -> None:
        """Replace the configuration of a log, whether it is open or not."""
        key = topic, partition
        if (unopened := self.unopened.get(key)) is not None:
            self.unopened[key] = unopened._replace(stored=unopened.stored._replace(config=config))
        elif key in self.logs:
            self.logs[key].config = config

    def delete(self, topic: str, partition: int, unique: str, now_ms: int) -> None:
        """Rename the directory of a log and remove it after file.delete.delay.ms. `unique` has 32 hex digits."""
        if (found := self._take_out(topic, partition)) is not None:
            directory, path, delay_ms = found
            self.discard(directory, path, delete_name(topic, partition, unique), now_ms + delay_ms)

    def replace(self, new: PartitionLog) -> PartitionLog:
        """Put `new` in the place of its partition's log. Return the old log, closed; its files still exist."""
        old = self.logs[new.topic, new.partition]
        old.close_files()
        old.directory.log_count -= 1
        self.add(new)
        return old

    def retire(self, log: PartitionLog, now_ms: int) -> None:
        """Remove a log that another one has replaced, after file.delete.delay.ms."""
        log.close_files()
        name = delete_name(log.topic, log.partition, uuid4().hex)
        self.discard(log.directory, log.path, name, now_ms + log.config.file_delete_delay_ms)

    def discard(self, directory: LogDirectory, path: str, name: str, due_ms: int) -> None:
        """Rename a partition directory to `name`, and remove it when `due_ms` is reached."""
        if directory.is_online:
            try:
                self._fs.rename(path, f"{directory.path}/{name}")
            except OSError as error:
                directory.fail(error)
            else:
                self.checkpoints.note_deletion(directory)
                self.removals.add(due_ms, directory, [f"{directory.path}/{name}"], partitions=True)

    def set_aside(self, topic: str, partition: int, unique: str) -> None:
        """Take out a log that no topic has any more. Its directory is kept as `-stray` until an operator removes it."""
        if (found := self._take_out(topic, partition)) is not None:
            directory, path, _ = found
            self._keep_as_stray(directory, path, topic, partition, unique)

    def _keep_as_stray(self, directory: LogDirectory, path: str, topic: str, partition: int, unique: str) -> None:
        """Rename a partition directory to a `-stray` name, which no start opens."""
        self.checkpoints.note_deletion(directory)
        directory.attempt(lambda: self._fs.rename(path, f"{directory.path}/{stray_name(topic, partition, unique)}"))

    # -- work for the background thread ------------------------------------------------------------------------------

    def flush_task(self, log: PartitionLog, now_ms: int) -> FlushTask | None:
        """Return a task that forces the whole log to the disk, or None if it is there already."""
        return full_flush(log, now_ms)

    def flush_tasks(self, now_ms: int) -> Iterator[Task]:
        """Yield the flushes that are due: rolled segments, small files, and logs whose flush.ms has passed.

        They are created during the iteration, because each holds files open until it has run. A log with a flush under
        way is skipped until the next call.
        """
        yield from overdue_flushes(self.logs.values(), now_ms)
        for directory in self.directories:
            yield from self.checkpoints.tasks_again(directory)
            yield from small_file_flushes(self.logs, directory, now_ms)

    def retention_tasks(self, now_ms: int, logs: Iterable[PartitionLog] | None = None) -> Iterator[Task]:
        """Take expired segments out of `logs`, or of all open logs, one log per iteration."""
        for log in list(self.logs.values()) if logs is None else logs:
            if (task := self.retention_task(log, now_ms)) is not None:
                yield task

    def retention_task(self, log: PartitionLog, now_ms: int) -> Task | None:
        """Take expired segments out of a log and return the task that renames their files, or None.

        Nothing is removed while a cleaner uses the log.
        """
        paths = remove_expired(log, now_ms, self.unread_from)
        if paths:
            self.on_start_raised(log)
        return RenameTask(log, paths, self.removals.of(log, now_ms)) if paths else None

    def swap_task(self, log: PartitionLog, cleaned: CleanedSegment, now_ms: int) -> SwapInTask:
        """Return a task that puts a cleaned segment in its place.

        The log must still have the segments that it was made from (`still_fits`).
        """
        return SwapInTask(log, cleaned, now_ms, self.removals.of(log, now_ms))

    def removal_tasks(self, now_ms: int) -> list[Task]:
        """Return tasks that remove the files and directories whose delay has passed."""
        return self.removals.tasks(now_ms)

    def checkpoint_tasks(
        self, only: LogDirectory | None = None, names: Collection[str] = OFFSET_CHECKPOINTS
    ) -> list[Task]:
        """Return tasks that write the checkpoint files in `names` of all working directories, or of `only`."""
        directories = self.directories if only is None else (only,)
        return [task for directory in directories for task in self.checkpoints.tasks(directory, names)]

    def expire_producers(self, now_ms: int) -> None:
        """Forget producers that were idle for producer.id.expiration.ms."""
        for log in self.logs.values():
            log.producer_state.expiration_ms = self.producer_expiration_ms
            log.producer_state.remove_expired(now_ms)
