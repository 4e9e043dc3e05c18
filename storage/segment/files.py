"""The files of a segment: their names and the objects for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from storage.index.offset import OffsetIndex
from storage.index.time import TimeIndex
from storage.index.transaction import TransactionIndex
from storage.log_config import LONG_MAX
from storage.open_files import LogFile, OpenFiles

LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX = ".log", ".index", ".timeindex", ".txnindex"
#: The suffixes of a segment's files, the log first.
SUFFIXES = LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
SNAPSHOT_SUFFIX = ".snapshot"
#: The suffixes of files that a cleaner writes, and of files that it is putting in place.
CLEANED_SUFFIX, SWAP_SUFFIX = ".cleaned", ".swap"

_DIGITS = 20
_new_tuple = tuple.__new__


def file_name(offset: int, suffix: str) -> str:
    """Return the name of the file whose first offset is `offset`: 20 digits and the suffix."""
    return f"{offset:020d}{suffix}"


def parse_file_name(name: str) -> tuple[int, str] | None:
    """Return the offset and the suffix of a file name; None for a foreign name (rule R1).

    A name is foreign if it does not begin with 20 digits, or if no record can have the offset.
    """
    digits, dot, rest = name.partition(".")
    if not dot or len(digits) != _DIGITS or not (digits.isascii() and digits.isdigit()) or int(digits) >= LONG_MAX:
        return None
    return int(digits), f".{rest}"


class IndexSizes(NamedTuple):
    """The sizes of the indexes in bytes, and whether there is a transaction index."""

    offset_index: int
    time_index: int
    has_txn_index: bool


class FileObjects:
    """The objects for the four files of a segment. They open the files on use."""

    __slots__ = ("log", "offset_index", "time_index", "txn_index")

    def __init__(self, files: OpenFiles, prefix: str, suffix: str, base_offset: int, sizes: IndexSizes) -> None:
        log, index, time_index, txn_index = [f"{prefix}{each}{suffix}" for each in SUFFIXES]
        self.log = LogFile(files, log, writable=True)
        self.offset_index = OffsetIndex(files, index, base_offset, sizes.offset_index)
        self.time_index = TimeIndex(files, time_index, base_offset, sizes.time_index)
        self.txn_index = TransactionIndex(files, txn_index, exists=sizes.has_txn_index)


class SegmentFiles:
    """The files of one base offset.

    A log may have a hundred thousand segments, of which a few are read between two starts. So the objects for the files
    are created on first use: a segment takes 0.4 KB before that, and 2 KB afterwards.
    """

    __slots__ = ("_directory", "_files", "_fs", "_index_sizes", "_suffix", "base_offset", "file_objects")

    def __init__(
        self, files: OpenFiles, directory: str, base_offset: int, sizes: Mapping[str, int], suffix: str = ""
    ) -> None:
        """`sizes` has the sizes of the existing files, by suffix. `suffix` is appended to the names of files that are
        not in place yet.
        """
        self._files = files
        self._fs = files.fs
        self._directory = directory
        self.base_offset = base_offset
        self._suffix = suffix
        get = sizes.get
        self._index_sizes = _new_tuple(
            IndexSizes, (get(INDEX_SUFFIX, 0), get(TIME_INDEX_SUFFIX, 0), TXN_INDEX_SUFFIX in sizes)
        )
        #: None until a file is used.
        self.file_objects: FileObjects | None = None

    def create_file_objects(self) -> FileObjects:
        """Create the objects for the files, on first use."""
        prefix = f"{self._directory}/{self.base_offset:020d}"
        objects = FileObjects(self._files, prefix, self._suffix, self.base_offset, self._index_sizes)
        self.file_objects = objects
        return objects

    @property
    def log(self) -> LogFile:
        return (self.file_objects or self.create_file_objects()).log

    @property
    def offset_index(self) -> OffsetIndex:
        return (self.file_objects or self.create_file_objects()).offset_index

    @property
    def time_index(self) -> TimeIndex:
        return (self.file_objects or self.create_file_objects()).time_index

    @property
    def txn_index(self) -> TransactionIndex:
        return (self.file_objects or self.create_file_objects()).txn_index

    @property
    def is_active(self) -> bool:
        return self.file_objects is not None and self.file_objects.offset_index.is_active

    @property
    def paths(self) -> tuple[str, str, str, str]:
        """The paths of the files, the log first. The transaction index may be missing. Without the log the others are
        orphans.
        """
        objects = self.file_objects or self.create_file_objects()
        return objects.log.path, objects.offset_index.file.path, objects.time_index.file.path, objects.txn_index.path

    def close(self) -> None:
        """Release the descriptors; writes nothing."""
        objects = self.file_objects
        if objects is not None:
            objects.log.close()
            objects.offset_index.close()
            objects.time_index.close()

    def remove_files(self) -> None:
        """Remove all files now."""
        self.close()
        for path in self.paths:
            self._fs.remove(path)
