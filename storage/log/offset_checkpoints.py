"""The checkpoint files of the log directories: recovery points, log start offsets, high watermarks.

The files know logs by name only. So a deleted log is removed from them before a log of the same name is created (rule
D4, README).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from storage.checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    TopicPartition,
    format_offsets,
    read_offsets,
)
from storage.log.directory import LogDirectory
from storage.log.partition_log import PartitionLog
from storage.log.stored_log import UnopenedLog
from storage.log.tasks import OffsetsTask

OFFSET_CHECKPOINTS = RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS
#: The checkpoints that a start needs to open logs.
_POINTS = RECOVERY_POINTS, LOG_START_OFFSETS


class OffsetCheckpoints:
    """Writes the checkpoint files for `logs` and `unopened`, which may change at any time.

    Unopened logs keep the values that the start read from the files.
    """

    def __init__(
        self, logs: Mapping[TopicPartition, PartitionLog], unopened: Mapping[TopicPartition, UnopenedLog]
    ) -> None:
        self._logs = logs
        self._unopened = unopened
        #: Directories whose files may still have entries of deleted partitions.
        self._outdated: set[LogDirectory] = set()
        self._to_write_again: set[LogDirectory] = set()
        #: The last task of `high_watermark_tasks`, as long as nothing else has written checkpoint files since.
        self._last_task: dict[LogDirectory, OffsetsTask] = {}

    def tasks(self, directory: LogDirectory, names: Collection[str] = OFFSET_CHECKPOINTS) -> Iterator[OffsetsTask]:
        """Yield tasks that write the files in `names`; none if the directory does not work."""
        if directory.is_online:
            self._last_task.pop(directory, None)
            files = self.offsets(directory)
            for name in names:
                yield OffsetsTask(directory, name, files[name])

    def high_watermark_tasks(self, directory: LogDirectory) -> Iterator[OffsetsTask]:
        """Yield a task that writes the high watermarks; none if the last such task has written the same ones."""
        if not directory.is_online:
            return
        offsets = self._high_watermarks(directory)
        last = self._last_task.get(directory)
        if last is None or last.error is not None or last.offsets != offsets:
            task = self._last_task[directory] = OffsetsTask(directory, HIGH_WATERMARKS, offsets)
            yield task

    def offsets(self, directory: LogDirectory) -> dict[str, dict[TopicPartition, int]]:
        """Return the entries for each checkpoint file: offset by (topic, partition)."""
        logs = [(key, log) for key, log in self._logs.items() if log.directory is directory]
        unopened = [(key, each.stored) for key, each in self._unopened.items() if each.directory is directory]
        return {
            RECOVERY_POINTS: {key: stored.recovery_point for key, stored in unopened}
            | {key: log.recovery_point for key, log in logs},
            LOG_START_OFFSETS: {key: stored.log_start_offset for key, stored in unopened if stored.log_start_offset}
            | {key: log.log_start_offset for key, log in logs if _is_start_unknown(log)},
            HIGH_WATERMARKS: self._high_watermarks(directory),
        }

    def _high_watermarks(self, directory: LogDirectory) -> dict[TopicPartition, int]:
        found = {
            key: each.stored.recovery_point
            for key, each in self._unopened.items()
            if each.directory is directory and each.stored.clean
        }
        return found | {key: log.high_watermark for key, log in self._logs.items() if log.directory is directory}

    def replace(self, directory: LogDirectory, name: str) -> None:
        """Write a checkpoint file now, and force it to the disk. Tasks that were created before do not replace it.

        Raises LogOffline.
        """
        self._last_task.pop(directory, None)
        with directory.offline_on_error():
            path = f"{directory.path}/{name}"
            directory.replace_checkpoint(path, format_offsets(self.offsets(directory)[name]))

    def note_deletion(self, directory: LogDirectory) -> None:
        """Note that a log of the directory was deleted."""
        self._outdated.add(directory)

    def forget_deleted(self, directory: LogDirectory) -> list[str]:
        """Remove deleted logs from the checkpoint files of a directory. Return the paths written. Raises OSError.

        The caller forces the files to the disk together with the new log.
        """
        if directory not in self._outdated:
            return []
        self._last_task.pop(directory, None)
        files, names = self.offsets(directory), self._names_to_open()
        paths = [f"{directory.path}/{name}" for name in names]
        for name, path in zip(names, paths, strict=True):
            # Use another temporary name than the background thread, which may be writing now. If the thread then puts
            # older offsets back, `tasks_again` writes the files once more after it.
            directory.fs.write_file(f"{path}.new.tmp", format_offsets(files[name]))
            directory.fs.rename(f"{path}.new.tmp", path)
        self._outdated.discard(directory)
        self._to_write_again.add(directory)
        return paths

    def tasks_again(self, directory: LogDirectory) -> Iterator[OffsetsTask]:
        """Yield tasks that write again what `forget_deleted` wrote."""
        if directory in self._to_write_again:
            self._to_write_again.discard(directory)
            yield from self.tasks(directory, self._names_to_open())

    def _names_to_open(self) -> Collection[str]:
        """Return the files that the next start relies on: high watermarks, too, if logs have other replicas."""
        return OFFSET_CHECKPOINTS if any(log.replicated for log in self._logs.values()) else _POINTS


def _is_start_unknown(log: PartitionLog) -> bool:
    """Return whether the files of a log do not show where it starts. Kafka notes the start of each tiered log."""
    return log.config.tiered or log.log_start_offset > log.segments[0].base_offset


def stored_high_watermarks(directories: Iterable[LogDirectory]) -> dict[TopicPartition, int]:
    """Return the high watermarks that the last broker left in the checkpoint files. Raises OSError."""
    found: dict[TopicPartition, int] = {}
    for directory in directories:
        if directory.is_online:
            found |= read_offsets(directory.fs, f"{directory.path}/{HIGH_WATERMARKS}", directory.remarks)
    return found
