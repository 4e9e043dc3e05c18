"""The files of a segment: their names and the objects for them."""

from __future__ import annotations

from collections.abc import Mapping

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


class SegmentFiles:
    """The files of one base offset. A file is opened when it is first used."""

    __slots__ = (
        "_directory",
        "_files",
        "_fs",
        "_index_sizes",
        "_suffix",
        "base_offset",
        "log",
        "offset_index",
        "time_index",
        "txn_index",
    )

    log: LogFile
    offset_index: OffsetIndex
    time_index: TimeIndex
    txn_index: TransactionIndex

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
        self._index_sizes = (get(INDEX_SUFFIX, 0), get(TIME_INDEX_SUFFIX, 0), TXN_INDEX_SUFFIX in sizes)
        self._make_files()

    def _make_files(self) -> None:
        files, base_offset, prefix = self._files, self.base_offset, f"{self._directory}/{self.base_offset:020d}"
        log, index, time_index, txn_index = [f"{prefix}{each}{self._suffix}" for each in SUFFIXES]
        index_bytes, time_index_bytes, has_txn_index = self._index_sizes
        self.log = LogFile(files, log, writable=True)
        self.offset_index = OffsetIndex(files, index, base_offset, index_bytes)
        self.time_index = TimeIndex(files, time_index, base_offset, time_index_bytes)
        self.txn_index = TransactionIndex(files, txn_index, exists=has_txn_index)

    @property
    def is_active(self) -> bool:
        return self.offset_index.is_active

    @property
    def paths(self) -> tuple[str, str, str, str]:
        """The paths of the files, the log first. The transaction index may be missing. Without the log the others are
        orphans.
        """
        return self.log.path, self.offset_index.file.path, self.time_index.file.path, self.txn_index.path

    def close(self) -> None:
        """Release the descriptors; writes nothing."""
        self.log.close()
        self.offset_index.close()
        self.time_index.close()

    def remove_files(self) -> None:
        """Remove all files now."""
        self.close()
        for path in self.paths:
            self._fs.remove(path)
