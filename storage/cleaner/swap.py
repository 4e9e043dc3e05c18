"""Cleaned segments take the place of those that they were made from, one after the other, in two tasks each.

    1  .cleaned -> .swap, forced to the disk           the old segments are the log
       on the loop: the new segment is in the list      the new one is, by files that are held open
    2  old -> .deleted; forced; .swap -> its place; forced

A crash before all names end with .swap leaves the old segments, one later the new segment (recovery, rule R1). Forcing
the names to the disk in between keeps an old and a new segment from being there both after a power loss. Nobody
notices: readers hold files, not names (rule H1).
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
    """Whether the log still is what the job was made of: the same segments, with the same beginning, and compacted."""
    now = [(segment.base_offset, segment.size_bytes) for segment in log.segments[: len(job.segments)]]
    return (
        not log.closed
        and log.directory.is_online
        and log.config.compacted
        and now == [(source.base_offset, source.size_bytes) for source in job.segments]
        and log.active_segment.base_offset >= job.end_offset
    )


def replace_in_list(log: PartitionLog, cleaned: CleanedSegment, now_ms: int) -> tuple[Segment, list[Segment]]:
    """Put the new segment, whose files end with .swap, where the old ones were; both. OSError."""
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
    """Step 1 for one segment, whose log must fit. `following` is step 2 once this is applied; None: the log is gone."""

    __slots__ = ("_cleaned", "_log", "_now_ms", "_removed", "following")
    leaves_half = True  # with half of the names changed the next round would take new segments for old ones

    def __init__(
        self, log: PartitionLog, cleaned: CleanedSegment, now_ms: int, removed: Callable[[Sequence[str]], None]
    ) -> None:
        """`removed` is told the new names of the old files, on the loop."""
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
    """Step 2."""

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
            with suppress(FileNotFoundError):  # a transaction index that there is not, or a topic that is being deleted
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
    """Remove what a round has made that is not wanted any more."""

    __slots__ = ("_log_path",)

    def __init__(self, log: PartitionLog) -> None:
        super().__init__(log.directory)
        self._log_path = log.path

    def _run(self) -> None:
        with suppress(FileNotFoundError):  # the topic is being deleted
            remove_cleaned(self.directory.fs, self._log_path)
