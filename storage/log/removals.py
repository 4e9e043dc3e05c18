"""Files and directories that were renamed on their way out, and when their time of grace is over."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from itertools import count

from storage.log.directory import LogDirectory
from storage.log.partition_log import PartitionLog
from storage.log.tasks import RemovePartitionsTask, RemoveTask, Task


class Removals:
    """By when they are due. What a process leaves behind, the next start finds by its name."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, LogDirectory, Sequence[str], bool]] = []
        self._sequence = count()

    def add(self, due_ms: int, directory: LogDirectory, paths: Sequence[str], *, partitions: bool = False) -> None:
        """`partitions`: they are directories of deleted partitions, and no files."""
        heapq.heappush(self._waiting, (due_ms, next(self._sequence), directory, paths, partitions))

    def of(self, log: PartitionLog, now_ms: int) -> Callable[[Sequence[str]], None]:
        """Takes paths of a log's files, which go file.delete.delay.ms from now."""
        due_ms = now_ms + log.config.file_delete_delay_ms
        return lambda paths: self.add(due_ms, log.directory, paths)

    def tasks(self, now_ms: int) -> list[Task]:
        """Remove what is due, in directories that work; of each of these all deleted partitions at once."""
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
