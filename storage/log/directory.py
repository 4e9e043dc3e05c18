"""A log directory of the broker: its lock, its open files, and whether it still works.

A directory fails as a whole (rule D3, README). After an I/O error none of its content can be trusted, so its logs raise
LogOffline from then on; the other directories continue. A failed fsync is never retried: the kernel may have dropped
the pages and would report success the second time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Protocol

from storage.checkpoints import LOCK, RECOVERY_POINTS, format_lines
from storage.errors import DirectoryRefused, LogOffline
from storage.fs import LOCAL, FileSystem
from storage.log_config import LogConfig
from storage.open_files import OUT_OF_DESCRIPTORS, OpenFiles


class DirectoryLog(Protocol):
    """A log in the sets `needs_flush` and `keeps_batch` of its directory (see LocalLog)."""

    topic: str
    partition: int

    def forget_batch(self) -> None: ...


class LogDirectory:
    """A log directory: path, file system, open files and state.

    `failure` is the reason why it is offline, None while it works. `on_failure` is called once, when it fails.
    `jitter(limit)` returns a random number below `limit`.
    """

    __slots__ = (
        "_lock_handle",
        "checkpoint_lock",
        "checkpoints_replaced",
        "failure",
        "files",
        "fs",
        "is_cordoned",
        "jitter",
        "keeps_batch",
        "log_count",
        "needs_flush",
        "on_failure",
        "path",
        "remarks",
    )

    def __init__(
        self,
        path: str,
        fs: FileSystem = LOCAL,
        files: OpenFiles | None = None,
        *,
        on_failure: Callable[[LogDirectory], None] | None = None,
        jitter: Callable[[int], int] = random.randrange,
    ) -> None:
        self.path = path
        self.fs = fs
        self.files = OpenFiles(fs) if files is None else files
        self.failure: str | None = None
        #: Whether new logs go elsewhere while another directory is available (KIP-1066).
        self.is_cordoned = False
        #: The number of its partitions. A new partition goes to the directory with the fewest.
        self.log_count = 0
        #: Logs with a rolled segment or small files that must be flushed soon; an ordered set.
        self.needs_flush: dict[DirectoryLog, None] = {}
        #: Logs that keep their last batch in memory; an ordered set.
        self.keeps_batch: dict[DirectoryLog, None] = {}
        self.on_failure = on_failure
        self.jitter = jitter
        #: Damage that the start found and repaired or set aside; one line each.
        self.remarks: list[str] = []
        #: Held while a task replaces a checkpoint file. `checkpoints_replaced` counts `replace_checkpoint`.
        self.checkpoint_lock = Lock()
        self.checkpoints_replaced = 0
        self._lock_handle: int | None = None

    @property
    def is_online(self) -> bool:
        return self.failure is None

    def roll_jitter_ms(self, config: LogConfig) -> int:
        """Return by how many ms to roll a segment before segment.ms, so that segments of one age roll at different
        times.
        """
        limit_ms = min(config.segment_jitter_ms, config.segment_ms)
        return self.jitter(limit_ms) if limit_ms else 0

    def check_usable(self) -> None:
        """Check that the directory can be used or created. Raises DirectoryRefused."""
        try:
            self.fs.check_usable(self.path)
        except OSError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: OSError) -> DirectoryRefused:
        remedy = "Make it a directory that the broker can write, or change the configuration"
        return DirectoryRefused(self.path, f"cannot be used: {error.strerror or error}. {remedy}")

    def lock(self) -> None:
        """Create and lock the directory. Raises DirectoryRefused if another broker uses it or it is not writable."""
        self.check_usable()
        try:
            self.fs.make_directory(self.path, sync=True)
            self._lock_handle = self.fs.lock(f"{self.path}/{LOCK}")
        except OSError as error:
            raise self._unusable(error) from error
        if self._lock_handle is None:
            raise DirectoryRefused(self.path, "is in use by another broker, which holds its .lock file")

    def lock_or_fail(self) -> None:
        """Lock the directory; if it cannot be created or written, take it offline instead of raising an error.

        Raises DirectoryRefused if another broker uses it, or if no descriptor is free.
        """
        try:
            self.lock()
        except DirectoryRefused as refused:
            if isinstance(refused.__cause__, OSError):
                self.fail(refused.__cause__)
            if self.is_online:  # no descriptor was free, so the disk is not at fault
                raise

    def unlock(self) -> None:
        if self._lock_handle is not None:
            self.fs.close(self._lock_handle)
            self._lock_handle = None

    def mark_used(self) -> None:
        """Create the file of recovery points, if it is missing.

        By this file a later start recognizes a directory that a broker has used. Without it, the directory could have
        been formatted by a start that was interrupted.
        """
        path = f"{self.path}/{RECOVERY_POINTS}"
        if self.is_online:
            with suppress(LogOffline), self.offline_on_error():
                if not self.fs.exists(path):
                    self.fs.replace_file(path, format_lines([]), sync=True)

    def replace_checkpoint(self, path: str, data: bytes) -> None:
        """Replace a checkpoint file on the event loop; tasks that were created before this do not write theirs.

        Raises OSError.
        """
        with self.checkpoint_lock:
            self.checkpoints_replaced += 1
            self.fs.replace_file(path, data, sync=True)

    def fail(self, error: OSError | str, *, half_done: bool = False) -> LogOffline:
        """Take the directory offline and return the exception to raise.

        If descriptors run out, the disk is not at fault, so only the current operation fails. With `half_done`
        the directory fails too, because only a start can repair what the operation left.
        """
        if isinstance(error, OSError) and error.errno in OUT_OF_DESCRIPTORS and not half_done:
            return LogOffline(self.path, str(error))
        if self.failure is None:
            self.failure = str(error)
            if self.on_failure is not None:
                self.on_failure(self)
        return LogOffline(self.path, self.failure)

    @contextmanager
    def offline_on_error(self) -> Iterator[None]:
        """Turn an OSError of the block into LogOffline and take the directory offline.

        The append and read path calls `fail` itself, because a context manager would cost time on every call.
        """
        try:
            yield
        except OSError as error:
            raise self.fail(error) from error

    def is_only_missing_file(self, error: OSError) -> bool:
        """Return whether only the file that `error` names is missing. An unmounted disk lacks the lock file too."""
        return isinstance(error, FileNotFoundError) and self.fs.exists(f"{self.path}/{LOCK}")

    def attempt(self, step: Callable[[], None]) -> None:
        """Run `step`; on an OSError take the directory offline and return normally."""
        try:
            step()
        except OSError as error:
            self.fail(error)


def check_all(directories: Sequence[LogDirectory]) -> None:
    """Check that all directories can be used and are distinct. Changes nothing. Raises DirectoryRefused."""
    paths: dict[str, str] = {}
    for directory in directories:
        directory.check_usable()
        path = directory.fs.real_path(directory.path)
        if path in paths:  # POSIX record locks do not exclude the same process
            raise DirectoryRefused(directory.path, f"is the same directory as {paths[path]}")
        paths[path] = directory.path


def lock_all(directories: Sequence[LogDirectory], spared: Collection[LogDirectory] = ()) -> None:
    """Lock all directories or none. Raises DirectoryRefused; then nothing was changed.

    All are checked first, and directories with a lock file come before those that must be created. So if one is
    unavailable, none was created yet. A directory in `spared` that cannot be created or written goes offline instead.
    """
    check_all(directories)
    try:
        for directory in sorted(directories, key=lambda each: not each.fs.exists(f"{each.path}/{LOCK}")):
            if directory in spared:
                directory.lock_or_fail()
            else:
                directory.lock()
    except BaseException:
        for directory in directories:
            directory.unlock()
        raise


def choose_directory(directories: Sequence[LogDirectory], preferred: LogDirectory | None, is_new: bool) -> LogDirectory:
    """Choose the directory for a new log (rule D2).

    It is the preferred directory, else the one with the fewest logs. Cordoned directories are used only if all others
    failed. Raises LogOffline if none works, or if one has failed and the log, which is not new, may be in it.
    """
    online = [directory for directory in directories if directory.is_online]
    failed = next((directory for directory in directories if not directory.is_online), None)
    if failed is not None and (not online or not is_new):
        raise LogOffline(failed.path, failed.failure or "")
    open_to_new = [directory for directory in online if not directory.is_cordoned] or online
    return preferred if preferred in open_to_new else min(open_to_new, key=lambda each: each.log_count)
