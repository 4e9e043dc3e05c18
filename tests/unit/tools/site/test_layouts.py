"""Layouts as they stand at the heads of files, against the structs that read these bytes."""

from __future__ import annotations

from struct import Struct

import pytest

from protocol.records.batch import HEADER
from storage.index.offset import OffsetIndex
from storage.index.time import TimeIndex
from storage.index.transaction import _LAYOUT as TRANSACTION_ENTRY
from storage.producers.snapshot import _ENTRY as SNAPSHOT_ENTRY
from tools.site.layouts import LayoutField, layout_of, parse_layout

_SIZES = {"b": 1, "h": 2, "i": 4, "I": 4, "q": 8}


@pytest.mark.parametrize(
    ("module", "number", "layout"),
    [
        ("protocol.records.batch", 0, HEADER),
        ("storage.index.offset", 0, OffsetIndex._layout),
        ("storage.index.time", 0, TimeIndex._layout),
        ("storage.index.transaction", 0, TRANSACTION_ENTRY),
        ("storage.producers.snapshot", 1, SNAPSHOT_ENTRY),
    ],
    ids=["batch", "offset index", "time index", "transaction index", "snapshot"],
)
def test_drawn_fields_are_those_that_are_read(module: str, number: int, layout: Struct) -> None:
    """Each field has the size that the code reads; what follows a batch's header has none."""
    sizes = [field.size_bytes for field in layout_of(module, number) if field.name != "records"]

    assert sizes == [_SIZES[letter] for letter in layout.format.removeprefix(">")]


def test_message_sets_have_a_timestamp_that_v0_lacks() -> None:
    """It stands in brackets; the two lengths have bytes behind them."""
    names = [field.name for field in layout_of("protocol.records.legacy")]

    assert names == [
        *("offset", "length", "crc", "magic", "attributes", "timestamp", "keyLength", "key", "valueLength", "value")
    ]


def test_remarks_are_no_fields() -> None:
    """In parentheses, and behind two spaces."""
    assert parse_layout("a int8 (unused) | b int32 (-1 null) | c ...     9 bytes, big-endian") == [
        LayoutField("a", "int8"),
        LayoutField("b", "int32"),
        LayoutField("c", ""),
    ]
