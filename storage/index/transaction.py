"""The transaction index: the aborted transactions that end in a segment (KIP-98).

    version int16 (0) | producerId int64 | firstOffset int64 | lastOffset int64 | lastStableOffset int64
                                                   34 bytes, big-endian; <base offset>.txnindex

The file exists only if there are entries. An entry is written when the abort marker is appended, so entries are in the
order of the markers' offsets. `lastStableOffset` is the last stable offset at that time: with it a reader stops when no
later entry can overlap its range.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from storage.errors import CorruptFile
from storage.open_files import LogFile, OpenFiles

_LAYOUT = Struct(">hqqqq")
_VERSION = 0


class AbortedTransaction(NamedTuple):
    """An aborted transaction of a producer in a partition: the offsets of its first batch and of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The entries of one segment. They are few and are read as a whole. No descriptor is held between calls."""

    __slots__ = ("_entries", "_files", "_fs", "path", "trusted")

    def __init__(self, files: OpenFiles, path: str, *, exists: bool) -> None:
        self._files = files
        self._fs = files.fs
        self.path = path
        self._entries: list[AbortedTransaction] | None = None if exists else []
        #: Whether the entries were compared with the records (rule R6).
        self.trusted = not exists

    @property
    def may_have_any(self) -> bool:
        """False if there are certainly no entries. Reads nothing."""
        return self._entries is None or bool(self._entries)

    @property
    def size_bytes(self) -> int:
        """The size of its entries in bytes. Raises CorruptFile."""
        return len(self.entries()) * _LAYOUT.size

    def entries(self) -> list[AbortedTransaction]:
        """Return all entries in order. Raises CorruptFile if the file has a partial entry or an unknown version."""
        if self._entries is None:
            try:
                data = self._fs.read_file(self.path)
            except FileNotFoundError:
                data = b""
            if len(data) % _LAYOUT.size:
                raise CorruptFile(self.path, f"{len(data)} bytes are not a whole number of entries")
            entries = []
            for version, *fields in _LAYOUT.iter_unpack(data):
                transaction = AbortedTransaction._make(fields)
                if version != _VERSION or not 0 <= transaction.first_offset < transaction.last_offset:
                    raise CorruptFile(self.path, f"invalid entry: {transaction} of version {version}")
                entries.append(transaction)
            self._entries = entries
        return self._entries

    def append(self, transaction: AbortedTransaction) -> None:
        entries = self.entries()
        file = LogFile(self._files, self.path, writable=True)  # the file cache may evict another file for it
        data = _LAYOUT.pack(_VERSION, *transaction)
        try:
            self._fs.write_at(file.open(create=True).handle, len(entries) * _LAYOUT.size, (data,))
        finally:
            file.close()
        entries.append(transaction)

    def collect(self, start_offset: int, end_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """Return the transactions that overlap [start, end), and whether later segments cannot have more."""
        found = []
        for transaction in self.entries():
            if transaction.last_offset >= start_offset and transaction.first_offset < end_offset:
                found.append(transaction)
            if transaction.last_stable_offset >= end_offset:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Remove the transactions that end at `offset` or later. Raises OSError and CorruptFile."""
        entries = self.entries()
        kept = [transaction for transaction in entries if transaction.last_offset < offset]
        if len(kept) < len(entries):
            self._fs.write_file(self.path, b"".join(_LAYOUT.pack(_VERSION, *transaction) for transaction in kept))
            self._entries = kept

    def reset(self) -> None:
        """Remove all entries; an existing file is emptied."""
        if self._fs.exists(self.path):
            self._fs.write_file(self.path, b"")
        self._entries = []
        self.trusted = True
