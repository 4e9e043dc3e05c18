"""Tasks for the background thread: created on the event loop, run in the thread, applied on the event loop.

`run()` makes system calls on the files that the task names, changes no other state and never raises. `apply()` takes
over the result: on failure the directory goes offline (rule D3, README). The tasks of a broker run one after the other.
Flushes that a request waits for are the exception: they run in parallel with the others and with each other.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import ClassVar, Protocol

from storage.checkpoints import TopicPartition, format_offsets
from storage.errors import LogOffline
from storage.fs import FileSystem
from storage.log.directory import LogDirectory
from storage.log.local_log import LocalLog
from storage.open_files import OpenFile
from storage.segment.files import TXN_INDEX_SUFFIX

DELETED_SUFFIX = ".deleted"
#: Attempts to empty a directory in which other programs create files.
_ATTEMPTS = 3


class Task(Protocol):
    """The part of a task that the background thread and the loop call."""

    def run(self) -> None: ...

    def apply(self) -> None: ...


class DirectoryTask:
    """A task whose failure takes a directory offline. `error` is the OSError of the run, or None.

    `leaves_half`: the directory fails even if only a descriptor was missing, because the work may be half done.
    """

    __slots__ = ("directory", "error")
    leaves_half: ClassVar[bool] = False

    def __init__(self, directory: LogDirectory) -> None:
        self.directory = directory
        self.error: OSError | None = None

    def run(self) -> None:
        try:
            self._run()
        except OSError as error:
            self.error = error

    def apply(self) -> None:
        if self.error is not None:
            self.directory.fail(self.error, half_done=self.leaves_half)
        else:
            self._apply()

    def _run(self) -> None:
        raise NotImplementedError

    def _apply(self) -> None:
        """Take over the result on the event loop."""


class FlushTask(DirectoryTask):
    """Force a log to the disk up to `end_offset` and move its recovery point there."""

    __slots__ = ("_files", "_paths", "_truncations", "_with_active", "end_offset", "log", "now_ms")

    def __init__(self, log: LocalLog, now_ms: int, *, with_active: bool) -> None:
        super().__init__(log.directory)
        self.log = log
        self.now_ms = now_ms
        active = log.active_segment
        self.end_offset = log.log_end_offset if with_active else active.base_offset
        self._with_active = with_active
        self._truncations = log.truncations
        # The indexes of a closed segment are complete. Those of the active segment are rebuilt after a crash. Flushes
        # under way may still fail to write their files, so this flush covers those too.
        self._paths: set[str] = log.unsynced.union(*log.flushes)
        log.flushes.append(self._paths)
        self._files: list[OpenFile] = []
        for segment in log.segments.from_offset(log.recovery_point):
            if segment is active and not with_active:
                continue
            # The thread opens closed files itself, one at a time: many tasks may be queued.
            if segment.log.open_file is not None:
                self._files.append(segment.log.open_file)
            else:
                self._paths.add(segment.log.path)
            self._paths.update(segment.paths[1:] if not segment.is_active else segment.paths[3:])
        log.unsynced.clear()
        log.directory.needs_flush.pop(log, None)

    def _run(self) -> None:
        fs = self.directory.fs
        for file in self._files:
            fs.sync(file.handle)
        for path in self._paths:
            with suppress(FileNotFoundError):  # removed meanwhile by retention or a topic deletion
                fs.sync_path(path)

    def apply(self) -> None:
        self.log.flushes.remove(self._paths)
        super().apply()
        if self.error is not None and self.directory.is_online:  # no fault of the disk: flush these files again later
            for path in self._paths:
                self.log.mark_unsynced(path)

    def check(self) -> None:
        """Raise LogOffline if the flush failed. Call it after `apply()`."""
        reason = self.directory.failure or self.error
        if reason is not None:
            raise LogOffline(self.log.path, str(reason))

    def _apply(self) -> None:
        log = self.log
        if log.truncations == self._truncations:  # else the records below `end_offset` may be others by now
            log.recovery_point = max(log.recovery_point, self.end_offset)
        if self._with_active:
            log.last_flush_ms = self.now_ms


class RenameTask(DirectoryTask):
    """Rename the files of removed segments with the suffix `.deleted` and pass their new names to `done`.

    The names of the remaining segments are forced to the disk first: after a power failure the log must not end below
    offsets that it has assigned (rule W3). A transaction index is renamed after its records. If the records came back
    without it, readers would get aborted records.
    """

    __slots__ = ("_done", "_log_path", "_paths")

    def __init__(self, log: LocalLog, paths: Sequence[str], done: Callable[[Sequence[str]], None]) -> None:
        super().__init__(log.directory)
        self._log_path = log.path
        self._paths = paths
        self._done = done

    def _run(self) -> None:
        fs = self.directory.fs
        last = [path for path in self._paths if path.endswith(TXN_INDEX_SUFFIX) and fs.exists(path)]
        for paths in ([path for path in self._paths if path not in last], last):
            if paths:
                with suppress(FileNotFoundError):
                    fs.sync_path(self._log_path)
            for path in paths:
                with suppress(FileNotFoundError):
                    fs.rename(path, path + DELETED_SUFFIX)

    def _apply(self) -> None:
        self._done([path + DELETED_SUFFIX for path in self._paths])


class RemoveTask(DirectoryTask):
    """Remove files."""

    __slots__ = ("_paths",)

    def __init__(self, directory: LogDirectory, paths: Sequence[str]) -> None:
        super().__init__(directory)
        self._paths = paths

    def _run(self) -> None:
        for path in self._paths:
            _remove(self.directory.fs, path)


class RemovePartitionsTask(RemoveTask):
    """Remove the directories of deleted partitions.

    Their renaming is forced to the disk first. Otherwise a directory could get its old name back after a power failure,
    without its topic id or some segments, and a new topic of that name would use it.
    """

    __slots__ = ()

    def _run(self) -> None:
        self.directory.fs.sync_path(self.directory.path)
        super()._run()


def _remove(fs: FileSystem, path: str) -> None:
    """Remove a file, or a directory with everything in it, including files that are not the broker's."""
    try:
        fs.remove(path)
        return
    except IsADirectoryError:
        pass
    for attempt in range(_ATTEMPTS):
        for entry in fs.list(path):
            _remove(fs, f"{path}/{entry.name}")
        try:
            fs.remove_directory(path)
            return
        except OSError as error:  # another program has just created a file in it
            if error.errno != errno.ENOTEMPTY or attempt == _ATTEMPTS - 1:
                raise


class WriteTask(DirectoryTask):
    """Replace a small file."""

    __slots__ = ("_data", "_path")

    def __init__(self, directory: LogDirectory, path: str, data: bytes) -> None:
        super().__init__(directory)
        self._path = path
        self._data = data

    def _run(self) -> None:
        self.directory.fs.replace_file(self._path, self._data, sync=True)


class OffsetsTask(DirectoryTask):
    """Replace a checkpoint file of offsets by partition, but keep the entries of other processes' partitions."""

    __slots__ = ("_data", "_path", "_replaced", "offsets")

    def __init__(self, directory: LogDirectory, name: str, offsets: dict[TopicPartition, int]) -> None:
        super().__init__(directory)
        self._path = f"{directory.path}/{name}"
        self.offsets = offsets
        self._data = format_offsets(offsets)
        self._replaced = directory.checkpoints_replaced

    def _run(self) -> None:
        with self.directory.checkpoint_lock:
            if self.directory.checkpoints_replaced == self._replaced:  # else these offsets are outdated
                self.directory.fs.replace_file(self._path, self._data, sync=True)
