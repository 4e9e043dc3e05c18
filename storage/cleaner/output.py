"""The output of a cleaner: one segment in `.cleaned` files, which no reader uses until they are put in place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct

import msgspec

from protocol.records.buffer import Buffer
from storage.cleaner.throttle import Throttle
from storage.errors import CorruptFile
from storage.fs import FileSystem
from storage.index.transaction import AbortedTransaction
from storage.log_config import INT_MAX, LogConfig
from storage.open_files import OpenFiles
from storage.segment.files import CLEANED_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from storage.segment.scan import parse_entry
from storage.segment.segment import Segment

#: The limits of one write: pieces (the system has a limit) and bytes.
_PIECES, _BYTES = 512, 1 << 20
#: Base offset and largest timestamp in a v2 header.
_UNPACK_INDEXED = Struct(">q27xq").unpack_from


class CleanedSegment(msgspec.Struct, frozen=True):
    """A cleaned segment: its base offset, the base offsets that it replaces, and its file sizes by suffix."""

    base_offset: int
    replaced: tuple[int, ...]
    sizes: dict[str, int]


def remove_cleaned(fs: FileSystem, directory: str) -> None:
    """Remove the files that interrupted rounds left in a log's directory. Raises OSError."""
    for entry in fs.list(directory):
        if entry.name.endswith(CLEANED_SUFFIX):
            fs.remove(f"{directory}/{entry.name}")


class CleanedOutput:
    """The files of one segment while they are written. All methods raise OSError."""

    __slots__ = (
        "_bytes",
        "_copy_start",
        "_copy_stop",
        "_files",
        "_pieces",
        "_position",
        "_segment",
        "_source",
        "_throttle",
        "_written",
        "base_offset",
    )

    def __init__(
        self, files: OpenFiles, directory: str, base_offset: int, config: LogConfig, throttle: Throttle
    ) -> None:
        self.base_offset = base_offset
        self._files = files
        self._throttle = throttle
        self._segment = Segment(files, directory, base_offset, config, created_ms=0, suffix=CLEANED_SUFFIX)
        self._segment.log.make()
        self._segment.begin_rebuild()
        self._pieces: list[Buffer] = []
        self._bytes = 0
        #: The bytes that are indexed, and the bytes that are in the file.
        self._position = self._written = 0
        #: Neighbouring batches that are written together.
        self._source = memoryview(b"")
        self._copy_start = self._copy_stop = 0

    def append(self, batch: bytes | memoryview) -> None:
        """Add a batch or message. The view must stay valid until `flush`."""
        entry = parse_entry(batch, 0, self._position)
        assert entry is not None, "it is whole"
        self._end_copy()
        self._index(len(batch), entry.last_offset, entry.max_timestamp)
        self._add(batch)

    def copy(self, source: memoryview, start: int, stop: int, last_offset: int, max_timestamp: int) -> None:
        """Add the batch at `start` of `source`. Neighbouring batches are written in one piece."""
        if start != self._copy_stop or source is not self._source:
            self._end_copy()
            self._source, self._copy_start = source, start
        self._index(stop - start, last_offset, max_timestamp)
        self._copy_stop = stop

    def copy_single(self, source: memoryview, spans: Iterable[tuple[int, int]]) -> None:
        """Add many small batches v2 of one record each, with starts and ends `spans` in `source`."""
        self._end_copy()
        index, position, pieces = self._segment.index_batch, self._position, []
        for start, end in spans:
            pieces.append(source[start:end])
            index(position, end - start, *_UNPACK_INDEXED(source, start))
            position += end - start
        if position > INT_MAX:
            raise self._overflow()
        self._position = position
        if pieces:
            self._add(b"".join(pieces))

    def _end_copy(self) -> None:
        if self._copy_stop:
            self._add(self._source[self._copy_start : self._copy_stop])
            self._copy_stop = 0

    def _index(self, size: int, last_offset: int, max_timestamp: int) -> None:
        position = self._position
        if position + size > INT_MAX:
            raise self._overflow()
        self._segment.index_batch(position, size, last_offset, max_timestamp)
        self._position = position + size

    def _overflow(self) -> OverflowError:
        return OverflowError(f"the segment at {self.base_offset} would grow past {INT_MAX} bytes")

    def _add(self, piece: bytes | memoryview) -> None:
        self._pieces.append(piece)
        self._bytes += len(piece)
        if len(self._pieces) >= _PIECES or self._bytes >= _BYTES:
            self._write()

    def add_aborted(self, transactions: Sequence[AbortedTransaction]) -> None:
        for transaction in transactions:
            self._segment.txn_index.append(transaction)

    def flush(self) -> None:
        """Write all buffered batches."""
        self._end_copy()
        self._write()

    def _write(self) -> None:
        if self._pieces:
            handle = self._segment.log.open().handle
            self._files.fs.write_at(handle, self._written, self._pieces)
            self._throttle.count(self._bytes)
            self._written += self._bytes
            self._pieces, self._bytes = [], 0

    def finish(self, replaced: Sequence[int], modified_ms: int) -> CleanedSegment:
        """Complete the files, set their modification time and force them to the disk.

        Raises CorruptFile if the file size differs from what was indexed. Such a segment must not replace intact ones.
        """
        self.flush()
        segment, fs = self._segment, self._files.fs
        if self._written != self._position:
            raise CorruptFile(
                segment.log.path, f"the file has {self._written} bytes, but its indexes cover {self._position}"
            )
        segment.end_rebuild(self._position)
        segment.close()
        sizes = {
            LOG_SUFFIX: self._position,
            INDEX_SUFFIX: segment.offset_index.size_bytes,
            TIME_INDEX_SUFFIX: segment.time_index.size_bytes,
        }
        paths = list(segment.paths[:3])
        if segment.txn_index.entries():
            sizes[TXN_INDEX_SUFFIX] = segment.txn_index.size_bytes
            paths.append(segment.txn_index.path)
        for path in paths:
            fs.set_modified_ms(path, modified_ms)
            fs.sync_path(path)
        return CleanedSegment(self.base_offset, tuple(replaced), sizes)
