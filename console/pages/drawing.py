"""Segments and batches drawn to scale: rectangles that a template puts into an SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from console.errors import NotFound
from console.logs.batches import BatchRow
from console.logs.index_entries import OffsetEntries, OffsetEntry, offset_entries
from console.logs.segment import Segment

#: The width of the drawing in its units; CSS scales it to the page.
WIDTH = 1000.0
_NARROWEST = 1.5
_MOST_BARS = 400
_MOST_TICKS = 400


@dataclass(frozen=True, slots=True)
class SegmentBar:
    """A segment; `is_active`: records are appended to it."""

    x: float
    width: float
    segment: Segment
    is_active: bool


def segment_bars(segments: Sequence[Segment], scale_bytes: int) -> list[SegmentBar]:
    """Return segments side by side, `scale_bytes` for the whole width; only the last ones of very many."""
    drawn = segments[-_MOST_BARS:]
    scale = max(scale_bytes, sum(each.size_bytes for each in drawn), 1)
    room = WIDTH - _NARROWEST * len(drawn)
    bars, x = [], 0.0
    for each in drawn:
        width = _NARROWEST + room * each.size_bytes / scale
        bars.append(SegmentBar(round(x, 2), round(width, 2), each, each is segments[-1]))
        x += width
    return bars


def entry_ticks(bars: Sequence[SegmentBar]) -> list[tuple[float, OffsetEntry]]:
    """Return the positions of offset index entries: all of them, or evenly chosen ones of very many."""
    ticks = []
    limit = max(_MOST_TICKS // max(len(bars), 1), 1)
    for bar in bars:
        try:
            entries = offset_entries(bar.segment)
        except NotFound:
            continue  # removed meanwhile
        for number in range(0, len(entries), -(-len(entries) // limit) or 1):
            entry = entries[number]
            if 0 <= entry.position < bar.segment.size_bytes:  # a damaged index may have any position
                ticks.append((round(bar.x + bar.width * entry.position / bar.segment.size_bytes, 2), entry))
    return ticks


@dataclass(frozen=True, slots=True)
class BatchBar:
    """A batch of a segment."""

    x: float
    width: float
    batch: BatchRow


@dataclass(frozen=True, slots=True)
class BatchDrawing:
    """The part of a segment's file from `start` to `end`, with the entries of the index that point into it."""

    start: int
    end: int
    bars: tuple[BatchBar, ...]
    ticks: tuple[tuple[float, OffsetEntry], ...]


def draw_batches(batches: Sequence[BatchRow], entries: OffsetEntries) -> BatchDrawing | None:
    """Draw consecutive batches to scale, each with at most one entry; None without batches."""
    if not batches:
        return None
    start, end = batches[0].position, batches[-1].position + batches[-1].size_bytes
    scale = WIDTH / (end - start)
    bars = tuple(
        BatchBar(round((row.position - start) * scale, 2), round(row.size_bytes * scale, 2), row) for row in batches
    )
    pointing = entries.within(start, end, len(batches))
    ticks = tuple((round((entry.position - start) * scale, 2), entry) for entry in pointing)
    return BatchDrawing(start, end, bars, ticks)
