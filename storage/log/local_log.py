"""The segments of one partition on this disk: write, read, roll, truncate, remove. Without producer state.

The event loop owns a log and calls all methods. Other threads only sync, rename and remove the files that a task names;
the event loop creates the tasks. An append is one write; offsets change after the whole write.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from struct import Struct

from protocol.records.batch import HEADER_SIZE, LOG_OVERHEAD
from protocol.records.buffer import Buffer
from storage.errors import LogOffline, OffsetOutOfRange
from storage.fetch_slice import EMPTY, FetchSlice
from storage.log.directory import LogDirectory
from storage.log_config import LogConfig
from storage.position_cache import BatchPosition
from storage.segment.segment import Segment
from storage.segment.segment_list import Segments

#: Base offset, length and leader epoch: the fields that an append sets in a batch.
_FRONT = Struct(">qii")
#: The number of last appended batches whose positions are cached, for consumers near the log end.
_RECENT_BATCHES = 512
#: A batch of at most this size is kept in memory for a waiting consumer; a larger one is sent by sendfile.
_KEPT_BYTES = 4096
#: The number of logs per directory that keep such a batch. The oldest one is dropped: a batch is read at once or never.
_KEPT_BATCHES = 256


class LocalLog:
    """Offsets, `size_bytes` and `segments` may be read on the event loop; only the methods change them."""

    __slots__ = (
        "_active",
        "_config",
        "_last_batch",
        "_opened_at_offset",
        "_other_bytes",
        "_recent_offsets",
        "_recent_positions",
        "_stable_position",
        "awaited",
        "cleaning",
        "closed",
        "copied",
        "directory",
        "fetched_bytes",
        "flushes",
        "last_flush_ms",
        "local_start_offset",
        "log_end_offset",
        "log_start_offset",
        "partition",
        "path",
        "recovery_point",
        "segments",
        "size_bytes",
        "topic",
        "truncations",
        "unsynced",
    )

    def __init__(
        self,
        directory: LogDirectory,
        path: str,
        topic: str,
        partition: int,
        config: LogConfig,
        *,
        segments: Segments,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        now_ms: int,
    ) -> None:
        self.directory = directory
        self.path = path
        self.topic = topic
        self.partition = partition
        self.segments = segments
        self.log_start_offset = log_start_offset
        #: The first offset on this disk. It is the log start offset, unless older segments are in remote storage alone.
        self.local_start_offset = max(log_start_offset, segments[0].base_offset) if config.tiered else log_start_offset
        self.log_end_offset = log_end_offset
        #: Everything below this offset is on the disk.
        self.recovery_point = recovery_point
        self.last_flush_ms = now_ms
        #: Paths of small files, and of this directory, that the next flush forces to the disk.
        self.unsynced: set[str] = set()
        #: The paths of each flush in progress.
        self.flushes: list[set[str]] = []
        self.closed = False
        #: How often records were removed from the end.
        self.truncations = 0
        #: A consumer waits for the next batch, which is kept in memory because it will be read at once.
        self.awaited = False
        #: Stops the cleaner's work on this log; None if no cleaner uses it. Closed segments must stay until then.
        self.cleaning: Callable[[], None] | None = None
        #: Whether the cleaner only copies the log by the names of its files. Then expired segments may be removed.
        self.copied = False
        #: Bytes of records in all segments.
        self.size_bytes = sum(segment.size_bytes for segment in segments)
        #: Bytes of records in responses to clients.
        self.fetched_bytes = 0
        self._opened_at_offset = log_end_offset
        #: `size_bytes` without the records appended since the log was opened; negative after their removal.
        self._other_bytes = self.size_bytes
        self.config = config
        self._stable_position: tuple[int, Segment, int] | None = None
        self._set_active(segments[-1])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name}, {self.log_start_offset}..{self.log_end_offset})"

    @property
    def config(self) -> LogConfig:
        """The configuration of the topic."""
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config

    @property
    def name(self) -> str:
        """Topic and partition, as in the name of the directory."""
        return f"{self.topic}-{self.partition}"

    @property
    def appended_records(self) -> int:
        """The number of offsets assigned since the log was opened."""
        return self.log_end_offset - self._opened_at_offset

    @property
    def appended_bytes(self) -> int:
        """Bytes of records appended since the log was opened, whether they still exist or not."""
        return self.size_bytes - self._other_bytes

    @property
    def appended(self) -> tuple[int, int]:
        """`appended_records` and `appended_bytes`. A follower sets them back after it has copied or removed records."""
        return self.appended_records, self.appended_bytes

    @appended.setter
    def appended(self, counts: tuple[int, int]) -> None:
        self._opened_at_offset = self.log_end_offset - counts[0]
        self._other_bytes = self.size_bytes - counts[1]

    def uncount(self, offsets: int, size_bytes: int) -> None:
        """Take so many offsets and bytes out of `appended`, after they were copied from another log."""
        self._opened_at_offset += offsets
        self._other_bytes += size_bytes

    @property
    def active_segment(self) -> Segment:
        return self._active

    def _set_active(self, segment: Segment) -> None:
        self._active = segment
        self._forget_positions()

    def _forget_positions(self) -> None:
        self._recent_offsets = array("q")
        self._recent_positions = array("q")
        self._last_batch = EMPTY
        self._stable_position = None

    # -- writing -----------------------------------------------------------------------------------------------------

    def _write(
        self,
        view: memoryview,
        base_offset: int,
        last_offset: int,
        max_timestamp: int,
        leader_epoch: int,
        now_ms: int,
        is_placed: bool = False,
    ) -> None:
        """Set offset and leader epoch of the batch and write it, to a new segment if necessary (rules W1, W2).

        With `is_placed` everything but the header is at the log end already. Raises LogOffline if the write failed;
        then the existing records are unchanged and the directory is offline.
        """
        size = len(view)
        try:
            segment = self._active
            if is_placed:
                view = memoryview(bytearray(view[:HEADER_SIZE]))
            elif segment.must_roll(self._config, size, last_offset, max_timestamp, now_ms):
                segment = self.roll(base_offset, now_ms)
            position = segment.size_bytes
            self._last_batch = EMPTY
            # The checksum covers neither field; the length between them does not change.
            if view.readonly:
                front = _FRONT.pack(base_offset, size - LOG_OVERHEAD, leader_epoch)
                buffers: tuple[Buffer, ...] = (front, view[_FRONT.size :])
            else:
                _FRONT.pack_into(view, 0, base_offset, size - LOG_OVERHEAD, leader_epoch)
                buffers = (view,)
            segment.append(buffers, size, last_offset, max_timestamp)
            if self.awaited:
                self.awaited = False
                if size <= _KEPT_BYTES:
                    kept = self.directory.keeps_batch
                    kept[self] = None
                    if len(kept) > _KEPT_BATCHES:
                        next(iter(kept)).forget_batch()
                    self._last_batch = b"".join(buffers)
        except OSError as error:
            with suppress(OSError):  # nothing was acknowledged, and recovery cuts off an incomplete batch
                self._active.undo_append()
            raise self.directory.fail(error) from error
        self.size_bytes += size
        recent = self._recent_offsets
        if len(recent) >= _RECENT_BATCHES:
            del recent[: _RECENT_BATCHES // 2], self._recent_positions[: _RECENT_BATCHES // 2]
        recent.append(base_offset)
        self._recent_positions.append(position)

    def forget_batch(self) -> None:
        """Drop the last batch from memory."""
        self._last_batch = EMPTY
        self.directory.keeps_batch.pop(self, None)

    def _make_room(self, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> None:
        """Create a new segment if the active one cannot take a batch of this size and time. Raises LogOffline.

        Also for a batch that is rejected afterwards, because Kafka rolls before it checks sequences.
        """
        with self.directory.offline_on_error():
            if self._active.must_roll(self._config, size, last_offset, max_timestamp, now_ms):
                self.roll(self.log_end_offset, now_ms)

    def roll(self, base_offset: int, now_ms: int) -> Segment:
        """Create a new segment. The old one is complete on return and due for a flush. Raises OSError."""
        active = self._active
        if not active.size_bytes and active.base_offset == base_offset:
            return active
        self._complete_active()
        self._on_roll(base_offset)
        segment = Segment.create(
            self.directory.files,
            self.path,
            base_offset,
            self._config,
            now_ms=now_ms,
            roll_jitter_ms=self.directory.roll_jitter_ms(self._config),
        )
        self.segments.add(segment)
        self._set_active(segment)
        self.mark_unsynced(self.path)
        return segment

    def _complete_active(self) -> None:
        """Complete the active segment's indexes and mark them for a flush, as the last one may have skipped them."""
        for path in self._active.become_inactive():
            self.mark_unsynced(path)

    def _on_roll(self, base_offset: int) -> None:
        """A hook for writes that are necessary before a segment begins at `base_offset`. Raises OSError."""

    def mark_unsynced(self, path: str) -> None:
        """Note that `path` was written, so that the next flush, which is due soon, forces it to the disk."""
        self.unsynced.add(path)
        self.directory.needs_flush[self] = None

    def check_usable(self) -> None:
        """Raise LogOffline if the directory has failed or the log is closed."""
        if self.directory.failure is not None or self.closed:
            raise LogOffline(self.path, self.directory.failure or "the log is closed")

    # -- reading -----------------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, end_offset: int, min_one_batch: bool = True) -> FetchSlice | bytes:
        """Read batches from the one that contains `offset`, up to `end_offset` (exclusive: high watermark, LSO or log
        end).

        The result has at most `max_bytes`, which may cut the last batch, and comes from one segment. With
        `min_one_batch` the first batch is always whole; without it the result is empty if the first batch does not fit.
        In a gap that compaction left, the read begins with the next batch. Returns `b""` if there is nothing. Raises
        OffsetOutOfRange if the offset is not within [local start offset, log end offset].
        """
        if self.directory.failure is not None or self.closed:
            self.check_usable()
        if not self.local_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.log_end_offset)
        if offset >= end_offset:
            return EMPTY
        recent = self._recent_offsets
        in_memory = EMPTY
        if recent and offset >= recent[0]:
            index = bisect_right(recent, offset)
            positions = self._recent_positions
            segment, position = self._active, positions[index - 1]
            if index < len(positions):
                batch_end = positions[index]
            else:
                batch_end, in_memory = segment.size_bytes, self._last_batch
        else:
            found = self.locate(offset)
            if found is None:
                return EMPTY
            segment, (base_offset, position, batch_end) = found
            if base_offset >= end_offset:
                return EMPTY
        at_end = segment is self._active and end_offset == self.log_end_offset
        size = (segment.size_bytes if at_end else self._end_position(segment, end_offset)) - position
        if size > max_bytes:
            if batch_end - position > max_bytes:
                if not min_one_batch:
                    return EMPTY
                size = batch_end - position
            else:
                size = max_bytes
        if size <= 0:
            return EMPTY
        log = (segment.file_objects or segment.create_file_objects()).log
        log.used = True
        if size != len(in_memory):
            in_memory = EMPTY
        try:
            return FetchSlice(self.directory.fs, log.open_file or log.open(), position, size, in_memory)
        except OSError as error:
            raise self.directory.fail(error) from error

    def locate(self, offset: int) -> tuple[Segment, BatchPosition] | None:
        """Return the first batch whose last offset is at least `offset`, with its segment; None if there is none."""
        try:
            for segment in self.segments.from_offset(offset):
                batch = segment.batch_position(offset)
                if batch is not None:
                    return segment, batch
        except OSError as error:
            raise self.directory.fail(error) from error
        return None

    def _end_position(self, segment: Segment, end_offset: int) -> int:
        """Return the position in `segment` at which the batches below `end_offset` end."""
        if end_offset >= self.log_end_offset:
            return segment.size_bytes
        known = self._stable_position
        if known is None or known[0] != end_offset:
            found = self.locate(end_offset)
            if found is None:
                return segment.size_bytes
            known = self._stable_position = (end_offset, found[0], found[1].position)
        return known[2] if known[1] is segment else segment.size_bytes

    def segment_of(self, offset: int) -> tuple[str, int]:
        """Return the file of the segment that contains `offset`, and the base offset of the next one or the log end
        offset.
        """
        segment = self.segments.from_offset(offset)[0]
        following = self.segments.after(segment)
        return segment.log.path, self.log_end_offset if following is None else following.base_offset

    # -- removing ----------------------------------------------------------------------------------------------------

    def drop_segments(self, segments: list[Segment]) -> None:
        """Remove whole segments from the list, so that they are no longer read. Their files still exist."""
        for segment in segments:
            self.segments.remove(segment)
            self.size_bytes -= segment.size_bytes
            self._other_bytes -= segment.size_bytes
            segment.close()
        self._stable_position = None

    def replace_segments(self, old: list[Segment], new: Segment) -> None:
        """Put a cleaned segment in the place of closed segments, whose files still exist."""
        self.drop_segments(old)
        self.segments.add(new)
        self.size_bytes += new.size_bytes
        self._other_bytes += new.size_bytes

    def continue_from(self, active: Segment, end_offset: int, removed_bytes: int) -> None:
        """Continue at `end_offset` after records were removed from the end; `active` is the last segment now."""
        self.truncations += 1
        self.size_bytes -= removed_bytes
        self._other_bytes -= removed_bytes
        self._opened_at_offset -= self.log_end_offset - end_offset
        self.log_end_offset = end_offset
        self.recovery_point = min(self.recovery_point, end_offset)
        self.forget_batch()
        self._set_active(active)

    def close_files(self) -> None:
        """Release all descriptors without writing. Slices that are being sent keep theirs."""
        self.closed = True
        if self.cleaning is not None:
            self.cleaning()
        for segment in self.segments:
            segment.close()
        self.forget_batch()
        self.directory.needs_flush.pop(self, None)
