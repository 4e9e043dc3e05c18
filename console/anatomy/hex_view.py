"""Bytes as rows of sixteen, cut where spans begin, so that a page can colour and link them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from console.anatomy.span import Span

ROW_BYTES = 16
#: The number of colours; neighbouring fields have different ones.
_COLOURS = 6
#: The limits of one view on a page.
_MOST_BYTES, _MOST_FIELDS = 4096, 2000


@dataclass(frozen=True, slots=True)
class LeafBytes:
    """The bytes of one leaf in one row: `number` is the leaf's, `is_first` marks the start of the leaf."""

    number: int
    is_first: bool
    name: str
    hex: str
    text: str

    @property
    def colour(self) -> int:
        return self.number % _COLOURS


@dataclass(frozen=True, slots=True)
class Row:
    """A row. `position` counts within the file, or within the uncompressed records; `columns_before` are empty."""

    position: int
    columns_before: int
    runs: tuple[LeafBytes, ...]


@dataclass(frozen=True, slots=True)
class FieldRow:
    """A line of the table beside the bytes; `number` is the leaf's, None for spans with parts.

    `is_beyond`: its bytes are not in the rows: it has none, or they are beyond the limit.
    """

    number: int | None
    depth: int
    span: Span
    is_beyond: bool

    @property
    def colour(self) -> int | None:
        return None if self.number is None else self.number % _COLOURS


@dataclass(frozen=True, slots=True)
class HexView:
    """Bytes and the table of their names. `offset` is the position of byte 0 of the spans in the file.

    `prefix` distinguishes the anchors of several views on a page; `is_cut`: bytes or names are left out (limits above).
    """

    rows: tuple[Row, ...]
    fields: tuple[FieldRow, ...]
    offset: int
    prefix: str
    is_cut: bool


def hex_view(data: bytes, spans: Sequence[Span], *, offset: int = 0, prefix: str = "a") -> HexView:
    """Return a view of the spans, whose leaves follow each other without gaps."""
    fields: list[FieldRow] = []
    leaves: list[Span] = []
    start = spans[0].start if spans else 0
    for depth, span in (each for whole in spans for each in whole.walk()):
        if len(fields) == _MOST_FIELDS:
            break
        number = None
        if not span.parts:
            number = len(leaves)
            leaves.append(span)
        fields.append(FieldRow(number, depth, span, span.start >= start + _MOST_BYTES or not span.size_bytes))
    end = min(leaves[-1].end, start + _MOST_BYTES) if leaves else start
    is_cut = bool(spans) and end < spans[-1].end
    return HexView(tuple(_rows(data, leaves, end, offset)), tuple(fields), offset, prefix, is_cut)


def _rows(data: bytes, leaves: Sequence[Span], end: int, offset: int) -> Iterator[Row]:
    if not leaves:
        return
    start, number = leaves[0].start, 0
    # rows are aligned to the file's, so that positions are multiples of 16
    row_start = start - (start + offset) % ROW_BYTES
    while row_start < end:
        row_end = row_start + ROW_BYTES
        at, stop = max(row_start, start), min(row_end, end)
        runs = []
        while at < stop:
            while leaves[number].end <= at:
                number += 1
            leaf = leaves[number]
            until = min(leaf.end, stop)
            piece = data[at:until]
            runs.append(LeafBytes(number, at == leaf.start, leaf.name, piece.hex(" "), _printable(piece)))
            at = until
        yield Row(offset + row_start, max(start - row_start, 0), tuple(runs))
        row_start = row_end


def _printable(data: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in data)
