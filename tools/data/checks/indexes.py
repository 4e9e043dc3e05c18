"""Check index files against their segment, entry by entry, during a walk over its batches.

An entry of an offset index must point at a batch and name the last offset of that batch. In older releases it may name
that of a later batch before the next entry's. An entry of a time index must name the last offset of the first batch
that has its timestamp as the largest one. In older releases it may name the offset of the record. The last entry must
have the largest timestamp of the segment. Both fields grow from entry to entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct

from protocol.records.batch import NO_TIMESTAMP
from storage.fs import LOCAL
from storage.log_config import INT_MAX
from storage.segment.scan import Entry
from tools.data.checks.findings import Finding, Kind

_NEVER = (1 << 63) - 1


class _IndexCheck:
    """A walk over the entries in file order; `next_*` is where the next batch must be compared with an entry."""

    layout: Struct
    kind: Kind

    def __init__(self, path: str, base_offset: int, *, complete: bool) -> None:
        """`complete`: the file was truncated to its entries; else zeros may follow, and entries may be missing."""
        self.path = path
        self.base_offset = base_offset
        self.complete = complete
        self.findings: list[Finding] = []
        self._entries: Iterator[tuple[int, int, int]] = iter(())

    def open(self) -> list[Finding]:
        """Read the file and return the findings on its size; a missing file is a finding too. Raises OSError."""
        try:
            size = self._size()
            if size > INT_MAX:
                return [Finding(self.path, self.kind, f"{size} bytes are more than an index may have")]
            data = LOCAL.read_file(self.path, INT_MAX)
        except FileNotFoundError:
            return [Finding(self.path, self.kind, "the index is missing")] if self.complete else []
        whole = len(data) // self.layout.size * self.layout.size
        pairs = self.layout.iter_unpack(memoryview(data)[:whole])
        self._entries = ((number, *pair) for number, pair in enumerate(pairs))
        if whole < len(data) and self.complete:
            what = f"{len(data)} bytes are not a multiple of the entry size, {self.layout.size}"
            return [Finding(self.path, self.kind, what, position=whole)]
        return []

    def _size(self) -> int:
        handle = LOCAL.open_read(self.path)
        try:
            return LOCAL.size(handle)
        finally:
            LOCAL.close(handle)

    def _next(self) -> tuple[int, int, int] | None:
        """Return the next entry as it is stored, None after the last."""
        entry = next(self._entries, None)
        if entry is not None and not self.complete and not any(entry[1:]):
            self._entries = iter(())
            return None
        return entry

    def wrong(self, number: int, what: str, offset: int | None = None) -> Finding:
        position = number * self.layout.size
        return Finding(self.path, self.kind, f"entry {number} {what}", position=position, offset=offset)


class OffsetIndexCheck(_IndexCheck):
    """Call `see` for each batch at or after `next_position`, and for all while `is_open`; then call `finish`."""

    layout = Struct(">ii")
    kind = Kind.OFFSET_INDEX

    def __init__(self, path: str, base_offset: int, *, complete: bool) -> None:
        super().__init__(path, base_offset, complete=complete)
        self.next_position = -1
        #: The entry whose offset the walk has not reached yet.
        self._open: tuple[int, int] | None = None
        self._upcoming: tuple[int, int, int] | None = None
        self._last_relative = -1

    @property
    def is_open(self) -> bool:
        return self._open is not None

    def start(self) -> Iterator[Finding]:
        """Read the file and go to the first entry."""
        yield from self.open()
        yield from self._advance()

    def _advance(self) -> Iterator[Finding]:
        position = self.next_position
        while (entry := self._next()) is not None:
            number, relative, entry_position = entry
            if relative > self._last_relative and entry_position > position:
                self._last_relative, self.next_position, self._upcoming = relative, entry_position, entry
                return
            yield self.wrong(number, "does not grow", self.base_offset + relative)
        self._upcoming, self.next_position = None, _NEVER

    def see(self, entry: Entry) -> Iterator[Finding]:
        """Check the next batch of the segment."""
        while self._upcoming is not None and self.next_position <= entry.position:
            number, relative, position = self._upcoming
            yield from self._close()
            offset = self.base_offset + relative
            if position != entry.position:
                yield self.wrong(number, f"points into a batch, at byte {position}", offset)
            elif offset < entry.base_offset:
                yield self.wrong(number, f"points at a batch that begins at offset {entry.base_offset}", offset)
            else:
                self._open = number, offset
            yield from self._advance()
        if self._open is not None and self._open[1] <= entry.last_offset:
            if self._open[1] < entry.last_offset:
                yield from self._close()
            self._open = None

    def _close(self) -> Iterator[Finding]:
        if self._open is not None:
            number, offset = self._open
            self._open = None
            yield self.wrong(number, "names an offset at which no batch ends", offset)

    def finish(self) -> Iterator[Finding]:
        """Check the remaining entries at the end of the segment."""
        yield from self._close()
        if self._upcoming is not None:
            number, relative, position = self._upcoming
            yield self.wrong(number, f"points beyond the records, at byte {position}", self.base_offset + relative)
            self._upcoming = None


class TimeIndexCheck(_IndexCheck):
    """Call `see` for each batch that ends at or after `next_offset`; `finish` takes the segment's largest timestamp."""

    layout = Struct(">qi")
    kind = Kind.TIME_INDEX

    def __init__(self, path: str, base_offset: int, *, complete: bool) -> None:
        super().__init__(path, base_offset, complete=complete)
        self.next_offset = -1
        self._upcoming: tuple[int, int] | None = None
        self._last = (NO_TIMESTAMP, -1)

    def start(self) -> Iterator[Finding]:
        """Read the file and go to the first entry."""
        yield from self.open()
        yield from self._advance()

    def _advance(self) -> Iterator[Finding]:
        while (entry := self._next()) is not None:
            number, timestamp, relative = entry
            if timestamp > self._last[0] and relative >= max(self._last[1], 0):
                self._last = timestamp, relative
                self._upcoming = number, timestamp
                self.next_offset = self.base_offset + relative
                return
            yield self.wrong(number, "does not grow", self.base_offset + relative)
        self._upcoming, self.next_offset = None, _NEVER

    def see(
        self, entry: Entry, first_offset: int, largest_before: int, first_of_largest: Callable[[], int | None]
    ) -> Iterator[Finding]:
        """Check the next batch of the segment, whose offsets begin at `first_offset`.

        `largest_before`: the largest timestamp of the batches before it. `first_of_largest` returns the offset of the
        first record with the batch's largest timestamp, None if unknown; it is called if an entry names another offset
        than the last one.
        """
        while self._upcoming is not None and self.next_offset <= entry.last_offset:
            number, timestamp = self._upcoming
            if self.next_offset < first_offset:
                yield self.wrong(number, "names an offset that no batch has", self.next_offset)
            elif timestamp != entry.max_timestamp:
                what = f"says {timestamp} of a batch whose largest timestamp is {entry.max_timestamp}"
                yield self.wrong(number, what, self.next_offset)
            elif timestamp <= largest_before:
                yield self.wrong(number, "names a batch after the first one of its timestamp", self.next_offset)
            elif self.next_offset != entry.last_offset and first_of_largest() not in (self.next_offset, None):
                what = f"names neither the batch's last offset, {entry.last_offset}, nor the record of its timestamp"
                yield self.wrong(number, what, self.next_offset)
            yield from self._advance()

    def finish(self, largest_timestamp: int) -> Iterator[Finding]:
        """Check the remaining entries at the end of the segment."""
        if self._upcoming is not None:
            yield self.wrong(self._upcoming[0], "names an offset beyond the records", self.next_offset)
        elif self.complete and self._last[0] < largest_timestamp:
            what = f"the last entry says {self._last[0]}, while the segment's largest timestamp is {largest_timestamp}"
            yield Finding(self.path, self.kind, what)
