"""Layouts in the heads of source files, compared with the structs that read these bytes."""

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
def test_drawn_fields_are_those_of_the_structs(module: str, number: int, layout: Struct) -> None:
    """Sizes are equal. Fields behind a batch's header have none."""
    sizes = [field.size_bytes for field in layout_of(module, number) if field.name != "records"]

    assert sizes == [_SIZES[letter] for letter in layout.format.removeprefix(">")]


def test_timestamp_of_message_sets_is_optional() -> None:
    """It is in brackets, as v0 has none. The two lengths are followed by bytes."""
    names = [field.name for field in layout_of("protocol.records.legacy")]

    assert names == [
        *("offset", "length", "crc", "magic", "attributes", "timestamp", "keyLength", "key", "valueLength", "value")
    ]


def test_remarks_are_no_fields() -> None:
    """They are in parentheses, or behind two spaces."""
    assert parse_layout("a int8 (unused) | b int32 (-1 null) | c ...     9 bytes, big-endian") == [
        LayoutField("a", "int8"),
        LayoutField("b", "int32"),
        LayoutField("c", ""),
    ]
