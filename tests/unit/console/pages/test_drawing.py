"""Segments and batches, drawn to scale."""

from __future__ import annotations

from pathlib import Path
from struct import pack

import pytest

from console.logs.batches import BatchRow
from console.logs.index_entries import OffsetEntries, OffsetEntry
from console.logs.segment import Segment
from console.pages.drawing import WIDTH, draw_batches, entry_ticks, segment_bars


def segments(*sizes: int) -> list[Segment]:
    return [Segment("/data/orders-0", number, {"log": size}) for number, size in enumerate(sizes)]


def batch(position: int, size_bytes: int) -> BatchRow:
    return BatchRow(position, size_bytes, 2, 0, 0, 1, "none", -1, -1, -1, False, False)


def test_segments_are_side_by_side() -> None:
    """As wide as their size; the largest partition takes the full width."""
    bars = segment_bars(segments(1000, 3000, 0), 4000)
    assert [bar.x for bar in bars[1:]] == pytest.approx([bar.x + bar.width for bar in bars[:-1]], abs=0.02)
    assert bars[-1].x + bars[-1].width == pytest.approx(WIDTH, abs=0.02)
    assert bars[1].width - bars[2].width == pytest.approx(3 * (bars[0].width - bars[2].width), abs=0.05)
    assert [bar.is_active for bar in bars] == [False, False, True]
    assert bars[2].width > 0  # even an empty one is visible


def test_smaller_partitions_are_narrower() -> None:
    (bar,) = segment_bars(segments(1000), 4000)
    assert bar.width == pytest.approx(WIDTH / 4, rel=0.01)


def test_only_the_last_of_many_segments_are_drawn() -> None:
    bars = segment_bars(segments(*range(1000)), 0)
    assert len(bars) == 400
    assert bars[-1].segment.base_offset == 999
    assert bars[-1].x + bars[-1].width <= WIDTH + 0.02


def test_nothing_is_drawn_without_segments() -> None:
    assert segment_bars([], 0) == []
    assert draw_batches([], OffsetEntries(b"", 0)) is None


def test_batches_are_drawn_with_their_index_entries() -> None:
    """Other entries are left out."""
    entries = OffsetEntries(pack(">6i", 9, 50, 19, 200, 29, 300), 0)
    drawn = draw_batches([batch(100, 100), batch(200, 100)], entries)
    assert drawn is not None
    assert (drawn.start, drawn.end) == (100, 300)
    assert [(bar.x, bar.width) for bar in drawn.bars] == [(0.0, 500.0), (500.0, 500.0)]
    assert drawn.ticks == ((500.0, OffsetEntry(1, 19, 200)),)


def test_index_entries_are_below_their_segments(tmp_path: Path) -> None:
    """At their position, some of very many, and none outside, even in a damaged file."""
    entries = [(9, 0), (19, 500), (29, 5000), (39, -5)]
    (tmp_path / f"{0:020d}.index").write_bytes(b"".join(pack(">ii", *each) for each in entries))
    (tmp_path / f"{100:020d}.index").write_bytes(b"".join(pack(">ii", each, each) for each in range(1, 1000)))
    found = [
        Segment(str(tmp_path), 0, {"log": 1000, "index": 32}),
        Segment(str(tmp_path), 100, {"log": 1000, "index": 7992}),
        Segment(str(tmp_path), 200, {"log": 1000, "index": 8}),  # whose file was deleted
    ]
    bars = segment_bars(found, 0)
    ticks = entry_ticks(bars)
    first = [x for x, entry in ticks if entry.last_offset < 100]
    assert first == pytest.approx([bars[0].x, bars[0].x + bars[0].width / 2], abs=0.02)
    assert 50 < len(ticks) <= 400
    assert all(bars[0].x <= x <= bars[1].x + bars[1].width for x, _ in ticks)
