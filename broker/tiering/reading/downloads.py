"""Reads from remote storage in progress: each range is read once, and written to a file for all that wait for it.

A download goes on when the fetch that asked for it has been answered or its client has disconnected.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from uuid import uuid4

from broker.tiering.reading.batches import whole_batches
from broker.tiering.reading.index_cache import IndexCache
from broker.tiering.reading.run import RunContent
from broker.tiering.reading.run_cache import RunCache
from protocol.id_text import id_text
from remote.errors import Damaged
from remote.layout import Layout
from runtime.deferred import Deferred
from runtime.log_limit import LimitedLog
from storage.directory_names import DirectoryKind, delete_name, parse_name
from storage.fs import FileSystem
from tiered.metadata_records import TopicIdPartition
from tiered.segment import RemoteSegment

if TYPE_CHECKING:
    from broker.tiering.counts import TierCounts
    from broker.tiering.rate_quota import RateQuota
    from runtime.clock import Clock
    from runtime.thread_pool import ThreadPool
    from runtime.timers import Timers

log = logging.getLogger(__name__)

#: Of files that are useless after the process. Its folder has the name of a deleted partition (delete_name), which
#: every broker that starts on the directory removes. Apache Kafka does not start where folders have other names.
CACHE = "remote-log-chunk-cache"
#: Bytes of one request. Larger ones let the first record wait; smaller ones cost more requests.
RUN_BYTES = 4 << 20
#: After a line about a failure, others are not logged for so long.
_SILENT_MS = 60_000

T = TypeVar("T")


class Wanted(NamedTuple):
    """The run of a segment that has `offset`. `position` is where it begins, if that is known; otherwise None."""

    partition: TopicIdPartition
    segment: RemoteSegment
    offset: int
    position: int | None = None

    @property
    def key(self) -> tuple[bytes, int]:
        return self.segment.id, self.offset


class InProgress(NamedTuple):
    """Another thread reads the range in which the wanted batch begins, for `key`."""

    key: tuple[bytes, int]


class RunReader:
    """Reads runs in threads: from remote storage, through a check of all checksums, to a file."""

    def __init__(self, fs: FileSystem, log_dir: str, layout: Layout, indexes: IndexCache) -> None:
        self._fs = fs
        self._log_dir = log_dir
        self._folder = f"{log_dir}/{delete_name(CACHE, 0, uuid4().hex)}"
        self._layout = layout
        self._indexes = indexes
        self._lock = Lock()
        #: Reads in progress: by key, the segment and the range of bytes.
        self._ranges: dict[tuple[bytes, int], tuple[bytes, int, int]] = {}
        self._numbers = count()
        #: Of files that cannot be written: as many as there are reads.
        self._warnings = LimitedLog(log, 1, _SILENT_MS / 1000)

    def clear(self) -> None:
        """Remove the files that an earlier start left, and make the folder. Called before the first read."""
        with suppress(OSError):
            for folder in self._fs.names(self._log_dir):
                if folder.startswith(f"{CACHE}-") and parse_name(folder)[0] is DirectoryKind.DELETED:
                    self._remove_files(f"{self._log_dir}/{folder}")
        with suppress(OSError):
            self._fs.make_directory(self._folder)

    def _remove_files(self, folder: str) -> None:
        """Remove the files of a folder, which is removed with those of deleted partitions."""
        with suppress(OSError):
            for name in self._fs.names(folder):
                self._fs.remove(f"{folder}/{name}")

    def read(self, wanted: Wanted) -> RunContent | InProgress:
        """Read a run. Raises RemoteStorageError; what is damaged is read a second time before."""
        try:
            return self._read(wanted)
        except Damaged:
            self._indexes.forget(wanted.segment)
            return self._read(wanted._replace(position=None))

    def remove_file(self, path: str) -> None:
        with suppress(OSError):
            self._fs.remove(path)

    def _read(self, wanted: Wanted) -> RunContent | InProgress:
        partition, segment, offset, position = wanted
        if position is None:
            position = self._indexes.position(partition, segment, offset)
        with self._lock:
            for key, (segment_id, start, end) in self._ranges.items():
                if segment_id == segment.id and start <= position < end:
                    return InProgress(key)
            self._ranges[wanted.key] = segment.id, position, position + RUN_BYTES
        try:
            return self._read_range(wanted, position)
        finally:
            with self._lock:
                self._ranges.pop(wanted.key, None)

    def _read_range(self, wanted: Wanted, position: int) -> RunContent:
        partition, segment, offset, _ = wanted
        name = f"{segment.start_offset}_{id_text(segment.id)}"
        size = RUN_BYTES
        while position < segment.size_bytes:
            data = self._layout.read(partition, segment, position, min(size, segment.size_bytes - position))
            found = whole_batches(name, data, position)
            if found.marks is None:
                size = found.size_bytes
                if position + size > segment.size_bytes:
                    raise Damaged(name, f"the batch at byte {position} ends behind the segment")
                continue
            is_last = position + found.size_bytes == segment.size_bytes
            if position + len(data) == segment.size_bytes and not is_last:
                raise Damaged(name, f"the batch at byte {position + found.size_bytes} is cut off")
            if found.end_offset > offset or is_last:
                end_offset = segment.end_offset + 1 if is_last else found.end_offset
                start_offset = min(found.first_offset, offset)
                path, unwritten = self._write(name, position, data[: found.size_bytes])
                return RunContent(
                    segment_id=segment.id,
                    start_offset=start_offset,
                    end_offset=end_offset,
                    records_end_offset=found.end_offset,
                    position=position,
                    size_bytes=found.size_bytes,
                    marks=found.marks,
                    path=path,
                    data=unwritten,
                )
            position += found.size_bytes
            size = RUN_BYTES
        raise Damaged(name, f"ends before offset {offset}")

    def _write(self, name: str, position: int, data: bytes) -> tuple[str, bytes | None]:
        """Write a file; return its path, and the bytes if that failed."""
        path = f"{self._folder}/{name}-{position}-{next(self._numbers)}.run"
        try:
            try:
                self._fs.write_file(path, data)
            except FileNotFoundError:  # someone has removed the folder
                self._fs.make_directory(self._folder)
                self._fs.write_file(path, data)
        except OSError as error:
            self._warnings.warning(
                "%s cannot be written: %s. Records of remote storage are cached in memory.", path, error
            )
            self.remove_file(path)
            return path, data
        return path, None


class Downloads:
    """The reads in progress by what they are for. Belongs to the event loop's thread."""

    def __init__(
        self,
        reader: RunReader,
        runs: RunCache,
        threads: ThreadPool,
        quota: RateQuota,
        counts: TierCounts,
        clock: Clock,
        timers: Timers,
        most_waiting: Callable[[], int],
    ) -> None:
        self._reader = reader
        self._runs = runs
        self._threads = threads
        self._quota = quota
        self._counts = counts
        self._clock = clock
        self._timers = timers
        self._most_waiting = most_waiting
        self._active: dict[tuple[bytes, int], Deferred[None]] = {}
        #: Resolves when a read has ended. None: nobody waits for that.
        self._room: Deferred[None] | None = None
        self._silent_until_ms = 0

    def __len__(self) -> int:
        return len(self._active)

    def start(self, wanted: Wanted) -> Deferred[None]:
        """Return a Deferred that resolves when the run may be in the cache, and fails with RemoteStorageError.

        The caller shares it, must not cancel it, and looks again when it resolves: while as many reads wait as
        remote.log.reader.max.pending.tasks allows, none is started, and the caller waits for the end of another one.
        """
        done = self._active.get(wanted.key)
        if done is not None:
            return done
        if len(self._active) >= self._most_waiting():
            if self._room is None:
                self._room = Deferred()
            return self._room
        done = self._active[wanted.key] = Deferred()
        self._submit(wanted)
        return done

    def run(self, function: Callable[[], T]) -> Deferred[T]:
        """Run another function in the threads of reads."""
        return self._threads(function)

    def _submit(self, wanted: Wanted) -> None:
        delay_ms = self._quota.delay_ms(self._clock.monotonic_ms())
        if delay_ms > 0:
            self._counts.fetch_throttle.note(delay_ms)
            self._timers.call_later(delay_ms, lambda: self._submit(wanted))
            return
        began_ms = self._clock.monotonic_ms()
        job = self._threads(self._reader.read, wanted)
        job.add_done_callback(lambda _: self._counts.reads.note(self._clock.monotonic_ms() - began_ms))
        job.add_done_callback(lambda job: self._on_read(wanted, job))

    def _on_read(self, wanted: Wanted, job: Deferred[RunContent | InProgress]) -> None:
        counts = self._counts.of(wanted.partition.topic)
        try:
            content = job.result()
            if isinstance(content, RunContent):
                counts.fetch_requests += 1
                counts.fetched_bytes += content.size_bytes
                self._quota.note(content.size_bytes, self._clock.monotonic_ms())
                self._runs.add(content)
        except Exception as error:
            counts.fetch_requests += 1
            counts.fetch_errors += 1
            self._log_failure(wanted, error)
            self._active.pop(wanted.key).fail(error)
        else:
            done = self._active.pop(wanted.key)
            other = None if isinstance(content, RunContent) else self._active.get(content.key)
            if other is None:  # read, if it was not by this thread, then meanwhile
                done.resolve(None)
            else:
                other.add_done_callback(done.settle_as)
        room, self._room = self._room, None
        if room is not None:
            room.resolve(None)

    def _log_failure(self, wanted: Wanted, error: Exception) -> None:
        """Log one line a minute: a client repeats a fetch that fails."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._silent_until_ms:
            return
        self._silent_until_ms = now_ms + _SILENT_MS
        log.warning(
            "Offset %d of %s-%d cannot be read from remote storage: %s. Fetches of such offsets get"
            " UNKNOWN_SERVER_ERROR; nothing is deleted.",
            wanted.offset,
            wanted.partition.topic,
            wanted.partition.partition,
            error,
        )
