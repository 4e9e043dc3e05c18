"""Start and end of a read, as callers specify them."""

from __future__ import annotations

import json

import pytest

from pybroker.source.bounds import EARLIEST, LATEST, OFFSET, TIMESTAMP, Bound, Bounds, at_time, bounds_of
from pybroker.source.errors import UnusableOption


@pytest.mark.parametrize(
    ("value", "timestamp_ms", "expected"),
    [
        (None, None, Bound(OFFSET, EARLIEST)),
        ("earliest", None, Bound(OFFSET, EARLIEST)),
        ("latest", None, Bound(OFFSET, LATEST)),
        (0, None, Bound(OFFSET, 0)),
        (23, None, Bound(OFFSET, 23)),
        (None, 0, Bound(TIMESTAMP, 0)),
        (None, 1_700_000_000_000, Bound(TIMESTAMP, 1_700_000_000_000)),
    ],
)
def test_offset_end_or_time(value: int | str | None, timestamp_ms: int | None, expected: Bound) -> None:
    assert bounds_of(value, timestamp_ms, EARLIEST, name="start").of("orders", 0) == expected


@pytest.mark.parametrize(
    ("value", "timestamp_ms", "message"),
    [
        (5, 5, "start: an offset and a time"),
        ("first", None, "'first'"),
        (-1, None, "-1"),
        (1 << 63, None, str(1 << 63)),
    ],
)
def test_invalid_bounds_are_rejected(value: int | str | None, timestamp_ms: int | None, message: str) -> None:
    with pytest.raises(UnusableOption, match=message):
        bounds_of(value, timestamp_ms, EARLIEST, name="start")


def test_partition_without_a_bound_is_named() -> None:
    bounds = Bounds(None, {("orders", 0): Bound(OFFSET, 7)})

    assert bounds.of("orders", 0) == Bound(OFFSET, 7)
    with pytest.raises(UnusableOption, match="orders-1"):
        bounds.of("orders", 1)


@pytest.mark.parametrize(
    "bounds",
    [
        at_time(5, late_means_latest=False),
        Bounds(None, {("orders", 0): Bound(OFFSET, 7), ("orders", 1): Bound(TIMESTAMP, 8)}),
        Bounds(Bound(OFFSET, LATEST), {("orders", 2): Bound(OFFSET, EARLIEST)}),
    ],
)
def test_bounds_can_be_serialized(bounds: Bounds) -> None:
    assert Bounds.from_json(json.loads(json.dumps(bounds.to_json()))) == bounds
