"""Avro values with schemas that users enter; the bytes follow the examples of Avro's specification."""

from __future__ import annotations

import json

import pytest

from console.avro import decode, parse_schema
from console.payload import payload
from pybroker.cli.client.avro import AvroError

ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "note", "type": ["null", "string"]},
            {"name": "lines", "type": {"type": "array", "items": {
                "type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}]}}},
            {"name": "first", "type": ["null", "Line"]},
            {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
            {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
            {"name": "tags", "type": {"type": "map", "values": "boolean"}},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        ],
    }
)  # fmt: skip
DATA = bytes.fromhex("36 02 06 66 6f 6f 02 02 61 00 02 02 62 02 ab cd 01 06 02 78 01 00 01")


def test_record_with_all_kinds_of_fields() -> None:
    """References to named types, and blocks with and without their size."""
    assert decode(parse_schema(ORDER), DATA) == {
        "id": 27,
        "note": "foo",
        "lines": [{"sku": "a"}],
        "first": {"sku": "b"},
        "kind": "OLD",
        "hash": "0xabcd",
        "tags": {"x": True},
        "day": -1,
    }


def test_schema_registry_header_is_skipped() -> None:
    """A zero byte and an id of four bytes."""
    assert payload(b"\0\0\0\0\x07" + DATA, "avro", parse_schema(ORDER)).form == "avro"


@pytest.mark.parametrize(
    ("schema", "data", "text"),
    [
        ("null", "00", None),
        ("boolean", "01", True),
        ("long", "01", -1),
        ("long", "8001", 64),
        ("int", "7f", -64),
        ("float", "0000803f", 1.0),
        ("double", "000000000000f03f", 1.0),
        ("bytes", "040aff", "0x0aff"),
        ("string", "0ac3a42fc3a4", "ä/ä"),
        ('{"type": "long", "logicalType": "timestamp-millis"}', "02", 1),
        ('["string", "int"]', "0203", -2),
    ],
)
def test_values_of_each_type(schema: str, data: str, text: object) -> None:
    """Primitive types and a union."""
    raw = b"" if schema == "null" else bytes.fromhex(data)
    assert decode(parse_schema(schema), raw) == text


@pytest.mark.parametrize("end", range(len(DATA)))
def test_truncated_bytes_are_an_error(end: int) -> None:
    """At any byte. They are shown undecoded."""
    found = payload(DATA[:end] or b"\xff", "avro", parse_schema(ORDER))
    assert found.form != "avro"
    assert found.problem.startswith("not an Avro value of this schema")


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        (ORDER, DATA + b"\0"),
        ("long", b"\xff" * 11),
        ("string", b"\x01"),
        ("string", b"\x04\xff\xfe"),
        ('["null"]', b"\x04"),
        ('{"type": "array", "items": "null"}', b"\xfe\xff\xff\xff\xff\x0f"),  # billions of empty values
        ('{"type": "record", "name": "A", "fields": [{"name": "a", "type": ["null", "A"]}]}', b"\x02" * 500),
        ('{"type": "record", "name": "A", "fields": [{"name": "a", "type": "A"}]}', b"\x02"),
    ],
)
def test_other_bytes_are_an_error(schema: str, data: bytes) -> None:
    """One line, however large their counts and depths."""
    with pytest.raises(AvroError):
        decode(parse_schema(schema), data)


@pytest.mark.parametrize(
    "schema",
    [
        "",
        "{",
        "nothing",
        "{}",
        '{"type": "record"}',
        '{"type": "record", "name": "A"}',
        '{"type": "record", "name": "A", "fields": [1]}',
        '{"type": "enum", "name": "A", "symbols": [1]}',
        '{"type": "fixed", "name": "A", "size": "2"}',
        '{"type": "fixed", "name": "A", "size": -2}',
        '{"type": "array"}',
        '{"type": "map", "values": 7}',
        '["null", "Unknown"]',
        "[" * 5000,
        '{"type":' * 100 + '"int"' + "}" * 100,
        '"' + "a" * 30_000 + '"',
    ],
)
def test_invalid_schemas_are_rejected(schema: str) -> None:
    """Before bytes are decoded."""
    with pytest.raises(AvroError):
        parse_schema(schema)


def test_exponential_schema_is_an_error() -> None:
    """It needs no bytes at all. One line, soon."""
    schema: object = "null"
    for number in range(60):
        half = {"name": "a", "type": schema}
        other = {"name": "b", "type": f"R{number - 1}" if number else "null"}
        schema = {"type": "record", "name": f"R{number}", "fields": [half, other]}
    with pytest.raises(AvroError, match="more than 100000 values"):
        decode(parse_schema(json.dumps(schema)), b"")


def test_long_values_are_cut_on_the_page() -> None:
    """Not while they are decoded."""
    decoded = payload(b"\x80\x7d" + b"\x02" * 8_000 + b"\0", "avro", parse_schema('{"type": "array", "items": "int"}'))
    assert (decoded.form, len(decoded.text), decoded.is_cut) == ("avro", 20_000, True)


def test_without_a_schema_values_are_not_decoded() -> None:
    assert payload(b'{"a": 1}', "avro").form == "json"
    assert payload(None, "avro").form == "null"
