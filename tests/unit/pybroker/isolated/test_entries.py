"""Entries of a log: codecs, checksums, and the entries whose records are rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from protocol.records.builder import BatchBuilder
from protocol.records.compression import Codec
from protocol.records.control import build_end_transaction_marker
from protocol.records.errors import RecordsError
from pybroker.isolated.entries import add_entry, no_aborted
from pybroker.isolated.rows import Rows

ALL = 1 << 62


def batch(codec: Codec = Codec.NONE, **header: Any) -> bytearray:
    """Return a batch with offsets 5 to 9."""
    builder = BatchBuilder(5, codec, **header)
    for number in range(5, 10):
        builder.append(1000 + number, b"%d" % number, b"value-%d" % number)
    return bytearray(builder.build())


def offsets(entry: bytes, start: int = 0, end: int = ALL, *, aborted: bool = False) -> tuple[int, list[int]]:
    """Return the offset behind the entry, and the offsets of its rows."""
    found: list[pa.RecordBatch] = []
    rows = Rows(("offset", "value"), "orders", 0, found.append)
    behind = add_entry(rows, memoryview(entry), start, end, (lambda header, batch: True) if aborted else no_aborted)
    rows.flush()
    taken = [row for part in found for row in part.to_pylist()]
    assert [row["value"] for row in taken] == [b"value-%d" % row["offset"] for row in taken]
    return behind, [row["offset"] for row in taken]


@pytest.mark.parametrize("codec", list(Codec))
def test_records_are_read_with_each_codec(codec: Codec) -> None:
    assert offsets(batch(codec)) == (10, [5, 6, 7, 8, 9])
    assert offsets(batch(codec), 6, 9) == (10, [6, 7, 8])


def test_batch_behind_the_range_has_no_rows() -> None:
    assert offsets(batch(), 0, 5) == (10, [])


def test_control_batch_is_skipped() -> None:
    marker = build_end_transaction_marker(7, 0, commit=True, coordinator_epoch=0, timestamp_ms=0)

    assert offsets(marker) == (1, [])


def test_aborted_batch_is_skipped() -> None:
    assert offsets(batch(producer_id=7, producer_epoch=0, transactional=True), aborted=True) == (10, [])


@pytest.mark.parametrize("place", [21, 40, 70])
def test_flipped_bit_is_detected(place: int) -> None:
    spoiled = batch()
    spoiled[place] ^= 4

    with pytest.raises(RecordsError):
        offsets(spoiled)


@pytest.mark.parametrize("size", [0, 16, 60])
def test_incomplete_batch_is_not_read(size: int) -> None:
    with pytest.raises(RecordsError):
        offsets(batch()[:size])


def test_unknown_magic_is_rejected() -> None:
    spoiled = batch()
    spoiled[16] = 3

    with pytest.raises(RecordsError, match="3"):
        offsets(spoiled)
