"""One of the broker's log directories: who may use it, and whether it still works.

A directory fails as a whole (rule D3, README): after an I/O error nobody knows what of it can be trusted, so its logs
raise LogOffline from then on and the other directories go on. A failed fsync is never retried: the kernel may have
dropped the pages and would report success the next time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from storage.checkpoints import CHECKPOINTS_LOCK, LOCK
from storage.errors import DirectoryRefused, LogOffline
from storage.fs import LOCAL, FileSystem
from storage.log_config import LogConfig
from storage.open_files import OUT_OF_DESCRIPTORS, OpenFiles

if TYPE_CHECKING:
    from storage.log.local import LocalLog


class LogDirectory:
    """A path with its file system and open files. `failure` says why it is offline, None while it works.

    `on_failure` is called once, when it fails. `jitter(limit)` picks a number below `limit`. `owns(topic, partition)`
    says which of its partitions are this process's, where several processes have one directory; None: all.
    """

    __slots__ = (
        "_lock_handle",
        "failure",
        "files",
        "fs",
        "is_cordoned",
        "jitter",
        "keeps_batch",
        "log_count",
        "needs_flush",
        "on_failure",
        "owns",
        "part",
        "path",
        "remarks",
        "was_left_clean",
    )

    def __init__(
        self,
        path: str,
        fs: FileSystem = LOCAL,
        files: OpenFiles | None = None,
        *,
        on_failure: Callable[[LogDirectory], None] | None = None,
        jitter: Callable[[int], int] = random.randrange,
        owns: Callable[[str, int], bool] | None = None,
    ) -> None:
        self.path = path
        self.fs = fs
        self.files = OpenFiles(fs) if files is None else files
        self.failure: str | None = None
        #: Whether new logs go elsewhere as long as there is another one (KIP-1066).
        self.is_cordoned = False
        #: Whether its last broker marked a clean stop; None: not looked at yet.
        self.was_left_clean: bool | None = None
        #: How many partitions it has: new ones go where there are the fewest.
        self.log_count = 0
        #: Logs with a rolled segment or small files that have to be forced to the disk soon; an ordered set.
        self.needs_flush: dict[LocalLog, None] = {}
        #: Logs that have their last batch in memory; an ordered set.
        self.keeps_batch: dict[LocalLog, None] = {}
        self.on_failure = on_failure
        self.jitter = jitter
        self.owns = owns
        #: What the start found damaged or missing, and has made anew or set aside; one line each.
        self.remarks: list[str] = []
        #: Which part of the lock is this process's; 0 for the one that has it first.
        self.part = 0
        self._lock_handle: int | None = None

    @property
    def is_online(self) -> bool:
        return self.failure is None

    def roll_jitter_ms(self, config: LogConfig) -> int:
        """By how much earlier than segment.ms a segment is rolled: those made together are not to roll together."""
        limit_ms = min(config.segment_jitter_ms, config.segment_ms)
        return self.jitter(limit_ms) if limit_ms else 0

    def check_usable(self) -> None:
        """Look whether the directory can be used, or be made. DirectoryRefused."""
        try:
            self.fs.check_usable(self.path)
        except OSError as error:
            raise DirectoryRefused(self.path, f"cannot be used: {error.strerror or error}") from error

    def lock(self) -> None:
        """Take the directory for this process. DirectoryRefused: another broker has it, or it cannot be written."""
        self.check_usable()
        try:
            self.fs.make_directory(self.path, sync=True)
            self._lock_handle = self.fs.lock(f"{self.path}/{LOCK}")
        except OSError as error:
            raise DirectoryRefused(self.path, f"cannot be used: {error.strerror or error}") from error
        if self._lock_handle is None:
            raise DirectoryRefused(self.path, "is in use by another broker, which holds its .lock file")

    def lock_or_fail(self) -> None:
        """The same, but one that cannot be made or written is offline then. DirectoryRefused: another broker has it."""
        try:
            self.lock()
        except DirectoryRefused as refused:
            if isinstance(refused.__cause__, OSError):
                self.fail(refused.__cause__)
            if self.is_online:  # also for want of a descriptor, which says nothing about the disk
                raise

    def share_lock(self) -> None:
        """Leave a part of the lock to each of some other processes, which outlive this one by a moment. OSError."""
        if self._lock_handle is not None:
            self.fs.share_lock(self._lock_handle)

    def lock_part(self, part: int) -> None:
        """Take a part of the lock that another process shares, from 1 on. DirectoryRefused: somebody still has it."""
        self.part = part
        try:
            self._lock_handle = self.fs.lock(f"{self.path}/{LOCK}", part)
        except OSError as error:
            raise DirectoryRefused(self.path, f"cannot be used: {error.strerror or error}") from error
        if self._lock_handle is None:
            raise DirectoryRefused(self.path, "is still in use by a worker that was ended")

    def unlock(self) -> None:
        if self._lock_handle is not None:
            self.fs.close(self._lock_handle)
            self._lock_handle = None

    def exclusive_checkpoints(self) -> AbstractContextManager[None]:
        """For replacing a checkpoint file, which all processes of the directory have in common. OSError.

        Not to be kept while the disk is waited for: the loops of all want it, too.
        """
        return nullcontext() if self.owns is None else self.fs.exclusive(f"{self.path}/{CHECKPOINTS_LOCK}")

    def fail(self, error: OSError | str, *, half_done: bool = False) -> LogOffline:
        """Take the directory offline; the exception for whoever ran into it.

        A process that is out of descriptors says nothing about the disk: only what was tried fails then, unless it is
        `half_done`: only a start brings that in order.
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
        """Around calls to this disk: an OSError takes the directory offline, and is raised as LogOffline.

        On the way of every append and read `fail` is called by hand, which costs nothing unless there is an error.
        """
        try:
            yield
        except OSError as error:
            raise self.fail(error) from error

    def is_there_without(self, error: OSError) -> bool:
        """Whether what an error says is missing is that alone: an unmounted disk has lost its lock file, too."""
        return isinstance(error, FileNotFoundError) and self.fs.exists(f"{self.path}/{LOCK}")

    def attempt(self, step: Callable[[], None]) -> None:
        """Take a step on this disk; an OSError takes the directory offline, and is not raised."""
        try:
            step()
        except OSError as error:
            self.fail(error)


def check_all(directories: Sequence[LogDirectory]) -> None:
    """Look whether all can be used, each once; touches nothing. DirectoryRefused."""
    paths: dict[str, str] = {}
    for directory in directories:
        directory.check_usable()
        path = directory.fs.real_path(directory.path)
        if path in paths:  # a process is not kept out by its own locks
            raise DirectoryRefused(directory.path, f"is the same directory as {paths[path]}")
        paths[path] = directory.path


def lock_all(directories: Sequence[LogDirectory], spared: Collection[LogDirectory] = ()) -> None:
    """Take all directories, or none: then nothing was touched. DirectoryRefused.

    Looking comes first, and lock files that are there come before those, and directories, that have to be made: when
    one cannot be had, none was made yet. Of those `spared` one that cannot be made or written goes offline instead.
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
