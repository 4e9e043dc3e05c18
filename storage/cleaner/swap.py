"""Replace segments by their cleaned versions, one by one, with two tasks for each.

    1  .cleaned -> .swap, forced to the disk           the old segments are the log
       on the loop: the new segment is in the list      the new one is, with its files held open
    2  old -> .deleted; forced; .swap -> its place; forced

A crash before all names end with .swap leaves the old segments, a later one the new segment (recovery, rule R1). The
names are forced to the disk in between, so that a power failure cannot leave an old and a new segment together. Readers
are not affected, because they hold files, not names (rule H1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from storage.cleaner.job import CleanJob
from storage.cleaner.output import CleanedSegment, remove_cleaned
from storage.log.partition_log import PartitionLog
from storage.log.tasks import DELETED_SUFFIX, DirectoryTask
from storage.segment.files import CLEANED_SUFFIX, SWAP_SUFFIX, file_name
from storage.segment.segment import Segment


def still_fits(log: PartitionLog, job: CleanJob) -> bool:
    """Return whether the log is still as the job found it: compacted, with the same first segments."""
    now = [(segment.base_offset, segment.size_bytes) for segment in log.segments[: len(job.segments)]]
    return (
        not log.closed
        and log.directory.is_online
        and log.config.compacted
        and now == [(source.base_offset, source.size_bytes) for source in job.segments]
        and log.active_segment.base_offset >= job.end_offset
    )


def replace_in_list(log: PartitionLog, cleaned: CleanedSegment, now_ms: int) -> tuple[Segment, list[Segment]]:
    """Put the new segment, whose files end with .swap, in the place of the old ones. Return both. Raises OSError."""
    old = [segment for segment in log.segments if segment.base_offset in cleaned.replaced]
    new = Segment(
        log.directory.files,
        log.path,
        cleaned.base_offset,
        log.config,
        created_ms=now_ms,
        sizes=cleaned.sizes,
        suffix=SWAP_SUFFIX,
    )
    for file in (new.log, new.offset_index.file, new.time_index.file):
        file.hold()
    new.txn_index.entries()
    log.replace_segments(old, new)
    return new, old


class SwapInTask(DirectoryTask):
    """Step 1 for one segment of an unchanged log.

    `following` is the task for step 2 after `apply()`; None if the log was closed meanwhile.
    """

    __slots__ = ("_cleaned", "_log", "_now_ms", "_removed", "following")
    leaves_half = True  # with half of the names changed the next round would clean new segments together with old ones

    def __init__(
        self, log: PartitionLog, cleaned: CleanedSegment, now_ms: int, removed: Callable[[Sequence[str]], None]
    ) -> None:
        """The event loop calls `removed` with the new names of the old files."""
        super().__init__(log.directory)
        self._log = log
        self._cleaned = cleaned
        self._now_ms = now_ms
        self._removed = removed
        self.following: PutInPlaceTask | None = None

    def _run(self) -> None:
        prefix = f"{self._log.path}/{file_name(self._cleaned.base_offset, '')}"
        with suppress(FileNotFoundError):  # the topic is being deleted
            for suffix in self._cleaned.sizes:
                self.directory.fs.rename(prefix + suffix + CLEANED_SUFFIX, prefix + suffix + SWAP_SUFFIX)
            self.directory.fs.sync_path(self._log.path)

    def _apply(self) -> None:
        if self._log.closed or not self.directory.is_online:
            return
        try:
            new, old = replace_in_list(self._log, self._cleaned, self._now_ms)
        except OSError as error:
            self.directory.fail(error, half_done=True)
        else:
            self.following = PutInPlaceTask(self._log, new, old, self._removed)


class PutInPlaceTask(DirectoryTask):
    """Step 2: rename the old files, then the new ones."""

    __slots__ = ("_log", "_new", "_old_paths", "_removed")
    leaves_half = True

    def __init__(
        self, log: PartitionLog, new: Segment, old: Sequence[Segment], removed: Callable[[Sequence[str]], None]
    ) -> None:
        super().__init__(log.directory)
        self._log = log
        self._new = new
        self._old_paths = [path for segment in old for path in segment.paths]
        self._removed = removed
        for segment in old:
            if segment.base_offset != new.base_offset and segment.base_offset in log.snapshots:
                log.snapshots.remove(segment.base_offset)
                self._old_paths.append(log.snapshot_path(segment.base_offset))

    def _run(self) -> None:
        fs = self.directory.fs
        for path in self._old_paths:
            with suppress(FileNotFoundError):  # no transaction index, or the topic is being deleted
                fs.rename(path, path + DELETED_SUFFIX)
        with suppress(FileNotFoundError):
            fs.sync_path(self._log.path)
        for path in self._new.paths:
            with suppress(FileNotFoundError):
                fs.rename(path, path.removesuffix(SWAP_SUFFIX))
        with suppress(FileNotFoundError):
            fs.sync_path(self._log.path)

    def _apply(self) -> None:
        new = self._new
        for file in (new.log, new.offset_index.file, new.time_index.file):
            file.moved(file.path.removesuffix(SWAP_SUFFIX))
        new.txn_index.path = new.txn_index.path.removesuffix(SWAP_SUFFIX)
        if not self._log.closed:
            self._removed([path + DELETED_SUFFIX for path in self._old_paths])


class RemoveCleanedTask(DirectoryTask):
    """Remove the `.cleaned` files of a round that was discarded."""

    __slots__ = ("_log_path",)

    def __init__(self, log: PartitionLog) -> None:
        super().__init__(log.directory)
        self._log_path = log.path

    def _run(self) -> None:
        with suppress(FileNotFoundError):  # the topic is being deleted
            remove_cleaned(self.directory.fs, self._log_path)
