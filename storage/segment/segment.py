"""A segment: the records from a base offset on, with an offset, a time and a transaction index.

    <base offset, 20 digits>.log | .index | .timeindex | .txnindex (only with aborted transactions)

Only the last segment of a log, the active one, is written to. A segment is not thread-safe: one thread owns it, without
a lock. After an OSError it must not be used any more; the caller takes the directory offline.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from protocol.records.batch import NO_TIMESTAMP
from protocol.records.buffer import Buffer
from storage.errors import CorruptFile
from storage.index.time import TimestampOffset
from storage.log_config import INT_MAX, LogConfig
from storage.open_files import OpenFiles
from storage.segment.indexed_segment import IndexedSegment
from storage.segment.scan import Entry

_new_tuple = tuple.__new__


class Segment(IndexedSegment):
    """Adds the writes: append, roll, truncate."""

    __slots__ = ()

    @classmethod
    def create(
        cls, files: OpenFiles, directory: str, base_offset: int, config: LogConfig, *, now_ms: int, roll_jitter_ms: int
    ) -> Segment:
        """Create a new, empty, active segment with its files."""
        segment = cls(files, directory, base_offset, config, created_ms=now_ms, roll_jitter_ms=roll_jitter_ms)
        segment._largest = TimestampOffset(NO_TIMESTAMP, base_offset)
        segment._preallocated = config.preallocate
        segment.make_active(config)
        try:
            # Files of the same name that a removed segment left are truncated.
            handle = segment.log.make().handle
            if config.preallocate:
                files.fs.truncate(handle, config.segment_bytes)
            segment.offset_index.make()
            segment.time_index.make()
        except OSError:
            segment.close()
            # otherwise the files would look like a segment, while the log continues in the previous one
            with suppress(OSError):
                for path in segment.paths:
                    files.fs.remove(path)
            raise
        return segment

    def make_active(self, config: LogConfig) -> None:
        self.offset_index.make_active(config.segment_index_bytes)
        self.time_index.make_active(config.segment_index_bytes)

    # -- append and roll ---------------------------------------------------------------------------------------------

    def append(self, buffers: Sequence[Buffer], size_bytes: int, last_offset: int, max_timestamp: int) -> None:
        """Write a batch at the end of the segment. The caller has checked that it fits (`must_roll`).

        `buffers` may be only the header, if the rest is in the file already. After an OSError the bytes written are
        beyond `size_bytes` and not part of the segment.
        """
        position = self.size_bytes
        objects = self.file_objects or self.create_file_objects()
        log = objects.log
        file = log.open_file or log.open()
        if len(buffers) == 1:
            written = self._fs.pwrite(file.handle, buffers[0], position)
            if written != len(buffers[0]):
                self._fs.write_at(file.handle, position + written, (memoryview(buffers[0])[written:],))
        else:
            self._fs.write_at(file.handle, position, buffers)
        log.used = True
        largest = self._largest or self.largest
        if max_timestamp > largest[0]:
            largest = _new_tuple(TimestampOffset, (max_timestamp, last_offset))
        if self._bytes_since_index_entry > self.index_interval_bytes:
            objects.offset_index.append(last_offset, position)
            objects.time_index.maybe_append(*largest)
            self._bytes_since_index_entry = 0
        self._largest = largest
        self._bytes_since_index_entry += size_bytes
        if position == 0:
            self._rolling_timestamp = max_timestamp
        self.size_bytes = position + size_bytes

    def append_run(self, view: memoryview, run: Sequence[Entry]) -> None:
        """Write several batches, as they are, at the end of the segment. It has room for them (`index_room`)."""
        position = self.size_bytes
        objects = self.file_objects or self.create_file_objects()
        log = objects.log
        file = log.open_file or log.open()
        written = self._fs.pwrite(file.handle, view, position)
        if written != len(view):
            self._fs.write_at(file.handle, position + written, (view[written:],))
        log.used = True
        if position == 0:
            self._rolling_timestamp = run[0].max_timestamp
        largest = self._largest or self.largest
        unindexed, interval = self._bytes_since_index_entry, self.index_interval_bytes
        for _, size_bytes, _, last_offset, max_timestamp, _, _ in run:
            if max_timestamp > largest[0]:
                largest = _new_tuple(TimestampOffset, (max_timestamp, last_offset))
            if unindexed > interval:
                objects.offset_index.append(last_offset, position)
                objects.time_index.maybe_append(*largest)
                unindexed = 0
            unindexed += size_bytes
            position += size_bytes
        self._largest, self._bytes_since_index_entry = largest, unindexed
        self.size_bytes = position

    @property
    def index_room(self) -> int:
        """The number of batches that certainly have room in both indexes."""
        objects = self.file_objects or self.create_file_objects()
        of_offsets = objects.offset_index.room - objects.offset_index.entries
        of_times = objects.time_index.room - objects.time_index.entries
        return of_offsets if of_offsets < of_times else of_times

    def must_roll(self, config: LogConfig, size_bytes: int, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
        """Return whether a batch needs a new segment: size, age, full indexes, or too large an offset distance."""
        size = self.size_bytes
        objects = self.file_objects or self.create_file_objects()
        offset_index, time_index = objects.offset_index, objects.time_index
        if (
            size > config.segment_bytes - size_bytes
            or offset_index.entries >= offset_index.room
            or time_index.entries >= time_index.room
            or last_offset - self.base_offset > INT_MAX
        ):
            return True
        if not size:
            return False
        rolling = self._rolling_timestamp
        if rolling is None:
            rolling = self.first_timestamp
        waited_ms = max_timestamp - rolling if rolling >= 0 else now_ms - self.created_ms
        return waited_ms > config.max_segment_ms - self.roll_jitter_ms

    def truncate_to(self, offset: int, config: LogConfig, now_ms: int) -> int:
        """Remove the batches from the one that contains `offset` on, with their index entries; return the new end.

        The end is `offset`, or the base offset of a batch that contains it: no offset is claimed whose record is gone.
        The segment is active afterwards. Raises OSError and CorruptFile.
        """
        found = self.find(offset)
        end = offset if found is None else min(offset, found.base_offset)
        self.txn_index.truncate_to(end)
        if found is not None:
            self.size_bytes = found.position
            self.undo_append()
        file = self.log.open()
        file.positions = None
        if not self.offset_index.is_active:
            self.make_active(config)
        self._largest = None
        try:
            self.offset_index.truncate_to(end)
            self.time_index.truncate_to(end)
            self._bytes_since_index_entry = self.size_bytes - self.offset_index.last().position
        except CorruptFile:
            self.rebuild_indexes()
        if not self.size_bytes:
            self._largest = TimestampOffset(NO_TIMESTAMP, self.base_offset)
            self._rolling_timestamp = None
            self.created_ms = now_ms
        return end
