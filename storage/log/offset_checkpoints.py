"""The checkpoint files of log directories: recovery points, log start offsets, high watermarks of their logs.

They know logs by name only. So what was deleted is taken out of them before a log of the same name is made (rule D4,
README). Where several processes have one directory, each speaks of its own logs there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from storage.checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS, TopicPartition
from storage.log.directory import LogDirectory
from storage.log.partition_log import PartitionLog
from storage.log.stored_log import UnopenedLog
from storage.log.tasks import OffsetsTask, offsets_with_others

OFFSET_CHECKPOINTS = RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS
#: Those by which a start opens logs.
_POINTS = RECOVERY_POINTS, LOG_START_OFFSETS


class OffsetCheckpoints:
    """`logs` may change at any time, and so may `unopened`, which are as the files had them at the start."""

    def __init__(
        self, logs: Mapping[TopicPartition, PartitionLog], unopened: Mapping[TopicPartition, UnopenedLog]
    ) -> None:
        self._logs = logs
        self._unopened = unopened
        #: Directories whose files may still have partitions that were deleted.
        self._outdated: set[LogDirectory] = set()
        self._to_write_again: set[LogDirectory] = set()

    def tasks(self, directory: LogDirectory, names: Collection[str] = OFFSET_CHECKPOINTS) -> Iterator[OffsetsTask]:
        """Write the files, or those in `names`; nothing where the directory does not work."""
        if directory.is_online:
            files = self.offsets(directory)
            for name in names:
                yield OffsetsTask(directory, name, files[name])

    def offsets(self, directory: LogDirectory) -> dict[str, dict[TopicPartition, int]]:
        """What belongs into the files now."""
        logs = [(key, log) for key, log in self._logs.items() if log.directory is directory]
        unopened = [(key, each.stored) for key, each in self._unopened.items() if each.directory is directory]
        return {
            RECOVERY_POINTS: {key: stored.recovery_point for key, stored in unopened}
            | {key: log.recovery_point for key, log in logs},
            LOG_START_OFFSETS: {key: stored.log_start_offset for key, stored in unopened if stored.log_start_offset}
            | {key: log.log_start_offset for key, log in logs if log.log_start_offset > log.segments[0].base_offset},
            HIGH_WATERMARKS: {key: stored.recovery_point for key, stored in unopened if stored.clean}
            | {key: log.high_watermark for key, log in logs},
        }

    def note_deletion(self, directory: LogDirectory) -> None:
        """A log of the directory is no more."""
        self._outdated.add(directory)

    def forget_deleted(self, directory: LogDirectory) -> list[str]:
        """Take what was deleted out of the files that speak of it; those that were written. OSError.

        They are to be forced to the disk with the new log.
        """
        if directory not in self._outdated:
            return []
        files = self.offsets(directory)
        paths = [f"{directory.path}/{name}" for name in _POINTS]
        for name, path in zip(_POINTS, paths, strict=True):
            # Not under the name that the background thread may be using just now. Should it put older offsets back in
            # the next moment, they are written once more behind it (`tasks_again`).
            with directory.exclusive_checkpoints():
                directory.fs.write_file(f"{path}.new.tmp", offsets_with_others(directory, path, files[name]))
                directory.fs.rename(f"{path}.new.tmp", path)
        self._outdated.discard(directory)
        self._to_write_again.add(directory)
        return paths

    def tasks_again(self, directory: LogDirectory) -> Iterator[OffsetsTask]:
        """Write once more what `forget_deleted` has written."""
        if directory in self._to_write_again:
            self._to_write_again.discard(directory)
            yield from self.tasks(directory, _POINTS)
