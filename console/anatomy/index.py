"""Entries of a segment's index files as spans.

.index       relativeOffset int32 | position int32             8 bytes
.timeindex   timestamp int64 | relativeOffset int32            12 bytes
.txnindex    version int16 | producerId int64 | firstOffset int64 | lastOffset int64 | lastStableOffset int64
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from console.anatomy.cursor import Cursor
from console.anatomy.span import Span
from console.anatomy.text import time_text
from protocol.primitives import Primitive, int16, int32, int64


@dataclass(frozen=True, slots=True)
class IndexKind:
    """The format of an index file. `meaning` describes an entry, given its numbers and the base offset."""

    title: str
    fields: tuple[tuple[str, Primitive], ...]
    meaning: Callable[[list[int], int], str]

    @property
    def entry_bytes(self) -> int:
        return sum(kind.size for _, kind in self.fields)


def _offset_entry(values: list[int], base_offset: int) -> str:
    return f"the batch that ends with offset {base_offset + values[0]} begins at byte {values[1]:,}"


def _time_entry(values: list[int], base_offset: int) -> str:
    return f"up to offset {base_offset + values[1]} no record is later than {time_text(values[0])}"


def _transaction_entry(values: list[int], _: int) -> str:
    return f"producer {values[1]} aborted its records from offset {values[2]} to its marker at {values[3]}"


INDEX_KINDS: Mapping[str, IndexKind] = {
    "index": IndexKind("Offset index", (("relativeOffset", int32), ("position", int32)), _offset_entry),
    "timeindex": IndexKind("Time index", (("timestamp", int64), ("relativeOffset", int32)), _time_entry),
    "txnindex": IndexKind(
        "Transaction index",
        (
            ("version", int16),
            ("producerId", int64),
            ("firstOffset", int64),
            ("lastOffset", int64),
            ("lastStableOffset", int64),
        ),
        _transaction_entry,
    ),
}
"""Index formats by file suffix."""


def entry_span(kind: IndexKind, data: bytes, position: int, number: int, base_offset: int) -> Span:
    """Return the entry at `position`. Raises ProtocolError if it is truncated."""
    cursor = Cursor(data, position)
    values = [cursor.number(name, field) for name, field in kind.fields]
    meaning = kind.meaning(values, base_offset)
    return Span(f"Entry {number}", position, cursor.position, "struct", meaning=meaning, parts=cursor.spans)
