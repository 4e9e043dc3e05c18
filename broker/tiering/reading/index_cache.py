"""Indexes of remote segments on the local disk, under Apache Kafka's names (RemoteIndexCache).

    <log.dir>/remote-log-index-cache/<start offset>_<segment id>.index | .timeindex | .txnindex

They stay for the next start. remote.log.index.file.cache.total.size.bytes limits their size: the least recently used
are removed first. remote.log.index.file.cache.ttl.ms removes those that were not used for as long.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from struct import Struct
from threading import Lock

from protocol.id_text import id_text
from remote.errors import Damaged
from remote.layout import Layout
from remote.segment_files import IndexKind
from storage.fs import FileSystem
from storage.index.transaction import AbortedTransaction
from tiered.metadata_records import TopicIdPartition
from tiered.segment import RemoteSegment

FOLDER = "remote-log-index-cache"
_SUFFIXES = {IndexKind.OFFSET: "index", IndexKind.TIMESTAMP: "timeindex", IndexKind.TRANSACTION: "txnindex"}
_POSITION, _TIME, _ABORTED = Struct(">ii"), Struct(">qi"), Struct(">hqqqq")
_LAYOUTS = {IndexKind.OFFSET: _POSITION, IndexKind.TIMESTAMP: _TIME, IndexKind.TRANSACTION: _ABORTED}
_WHOLE_BYTES = 1 << 31


class IndexCache:
    """Indexes by segment. Calls block and may be made from any thread.

    Args:
        capacity_bytes, unused_ms: the limits; `unused_ms` below 0: none.
        now_ms: the monotonic clock.
    """

    def __init__(
        self,
        fs: FileSystem,
        log_dir: str,
        layout: Layout,
        capacity_bytes: int,
        unused_ms: int,
        now_ms: Callable[[], int],
    ) -> None:
        self._fs = fs
        self._folder = f"{log_dir}/{FOLDER}"
        self._layout = layout
        self._capacity_bytes = capacity_bytes
        self._unused_ms = unused_ms
        self._now_ms = now_ms
        self._lock = Lock()
        #: Size and last use of each file, least recently used first.
        self._files: OrderedDict[str, tuple[int, int]] = OrderedDict()
        self.size_bytes = 0

    def load(self) -> None:
        """Take over the files that an earlier start left; remove others. A folder that cannot be used stays empty."""
        with suppress(OSError):
            self._fs.make_directory(self._folder)
            for entry in self._fs.list(self._folder):
                if entry.name.rpartition(".")[2] in _SUFFIXES.values():
                    self._note(entry.name, entry.size_bytes)
                elif not entry.is_directory:
                    self._fs.remove(f"{self._folder}/{entry.name}")

    def limit(self, capacity_bytes: int) -> None:
        """Change the limit; it applies from the next index on."""
        self._capacity_bytes = capacity_bytes

    def position(self, partition: TopicIdPartition, segment: RemoteSegment, offset: int) -> int:
        """Return where in the segment a search for `offset` begins. Raises RemoteStorageError."""
        index = self._read(partition, segment, IndexKind.OFFSET)
        at = _floor(index, _POSITION, 0, offset - segment.start_offset)
        position: int = 0 if at < 0 else _POSITION.unpack_from(index, at * _POSITION.size)[1]
        return position if position < segment.size_bytes else 0

    def offset_of_time(self, partition: TopicIdPartition, segment: RemoteSegment, timestamp: int) -> int:
        """Return an offset before which the segment has no record as late as `timestamp` (ms)."""
        index = self._read(partition, segment, IndexKind.TIMESTAMP)
        at = _floor(index, _TIME, 0, timestamp - 1)
        return segment.start_offset + (0 if at < 0 else int(_TIME.unpack_from(index, at * _TIME.size)[1]))

    def aborted(self, partition: TopicIdPartition, segment: RemoteSegment) -> list[AbortedTransaction]:
        """Return the aborted transactions that end in the segment."""
        if segment.has_no_aborted:
            return []
        index = self._read(partition, segment, IndexKind.TRANSACTION)
        return [AbortedTransaction._make(fields) for _, *fields in _ABORTED.iter_unpack(index)]

    def forget(self, segment: RemoteSegment) -> None:
        """Remove the indexes of a segment, which was deleted or whose indexes are wrong."""
        with self._lock:
            for kind in _SUFFIXES:
                self._remove(_name(segment, kind))

    def _read(self, partition: TopicIdPartition, segment: RemoteSegment, kind: IndexKind) -> bytes:
        name, layout = _name(segment, kind), _LAYOUTS[kind]
        with self._lock:
            known = self._files.get(name)
            if known is not None:
                self._files[name] = known[0], self._now_ms()
                self._files.move_to_end(name)
        if known is not None:
            with suppress(OSError):
                content = self._fs.read_file(f"{self._folder}/{name}", _WHOLE_BYTES)
                if len(content) == known[0] and not len(content) % layout.size:
                    return content
        content = self._layout.read_index(partition, segment, kind) or b""
        if len(content) % layout.size:
            raise Damaged(name, f"{len(content)} bytes are not a whole number of entries")
        with suppress(OSError):  # a disk that is full or broken only costs another read
            self._fs.replace_file(f"{self._folder}/{name}", content)
            with self._lock:
                self._note(name, len(content))
                self._evict(name)
        return content

    def _note(self, name: str, size_bytes: int) -> None:
        self.size_bytes += size_bytes - self._files.pop(name, (0, 0))[0]
        self._files[name] = size_bytes, self._now_ms()

    def _evict(self, newest: str) -> None:
        capacity, now_ms = self._capacity_bytes, self._now_ms()
        for name, (_, used_ms) in list(self._files.items()):
            is_old = 0 <= self._unused_ms < now_ms - used_ms
            if name == newest or not (is_old or self.size_bytes > capacity):
                return
            self._remove(name)

    def _remove(self, name: str) -> None:
        known = self._files.pop(name, None)
        if known is not None:
            self.size_bytes -= known[0]
            with suppress(OSError):
                self._fs.remove(f"{self._folder}/{name}")


def _name(segment: RemoteSegment, kind: IndexKind) -> str:
    return f"{segment.start_offset}_{id_text(segment.id)}.{_SUFFIXES[kind]}"


def _floor(index: bytes, layout: Struct, field: int, wanted: int) -> int:
    """Return the number of the last entry whose `field` is at most `wanted`; -1 if there is none."""
    low, high = 0, len(index) // layout.size
    while low < high:
        middle = (low + high) // 2
        if layout.unpack_from(index, middle * layout.size)[field] <= wanted:
            low = middle + 1
        else:
            high = middle
    return low - 1
