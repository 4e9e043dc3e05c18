"""Renamed files and directories that are waiting for their removal."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from itertools import count

from storage.log.directory import LogDirectory
from storage.log.partition_log import PartitionLog
from storage.log.tasks import RemovePartitionsTask, RemoveTask, Task


class Removals:
    """A queue of removals by due time. After a crash the next start finds the files by their suffix."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, LogDirectory, Sequence[str], bool]] = []
        self._sequence = count()

    def add(self, due_ms: int, directory: LogDirectory, paths: Sequence[str], *, partitions: bool = False) -> None:
        """Queue paths for removal. `partitions`: they are directories of deleted partitions, not files."""
        heapq.heappush(self._waiting, (due_ms, next(self._sequence), directory, paths, partitions))

    def of(self, log: PartitionLog, now_ms: int) -> Callable[[Sequence[str]], None]:
        """Return a function that queues paths of the log's files for removal after file.delete.delay.ms."""
        due_ms = now_ms + log.config.file_delete_delay_ms
        return lambda paths: self.add(due_ms, log.directory, paths)

    def tasks(self, now_ms: int) -> list[Task]:
        """Return tasks for all due removals in working directories. All deleted partitions of a directory share one
        task.
        """
        tasks: list[Task] = []
        deleted: dict[LogDirectory, list[str]] = {}
        while self._waiting and self._waiting[0][0] <= now_ms:
            _, _, directory, paths, partitions = heapq.heappop(self._waiting)
            if not directory.is_online:
                continue
            if partitions:
                deleted.setdefault(directory, []).extend(paths)
            else:
                tasks.append(RemoveTask(directory, paths))
        return [*tasks, *(RemovePartitionsTask(directory, paths) for directory, paths in deleted.items())]
