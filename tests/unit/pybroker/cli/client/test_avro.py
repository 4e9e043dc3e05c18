"""Avro's binary encoding: each type, and bytes that are not of the schema."""

from __future__ import annotations

import pytest

from pybroker.cli.client.avro import AvroError, AvroSchema

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "SENT"]}},
        {"name": "sums", "type": {"type": "array", "items": "int"}},
        {"name": "tags", "type": {"type": "map", "values": "boolean"}},
        {"name": "key", "type": {"type": "fixed", "name": "Key", "size": 2}},
        {"name": "before", "type": ["null", "Order"]},
        {"name": "price", "type": {"type": "double", "logicalType": "price"}},
    ],
}
#: id -1, note "a", state SENT, sums [1, 2] as a block with its size, tags {b: true}, key, no earlier order, price 1.5
VALUE = bytes.fromhex("010202610203040204000202620100ff4100") + bytes.fromhex("000000000000f83f")


def test_value_of_each_type() -> None:
    """Encoded by hand after the specification."""
    assert AvroSchema(ORDER).decode(VALUE) == {
        "id": -1,
        "note": "a",
        "state": "SENT",
        "sums": [1, 2],
        "tags": {"b": True},
        "key": "\xffA",
        "before": None,
        "price": 1.5,
    }


@pytest.mark.parametrize(
    ("schema", "data", "value"),
    [
        ("int", "8001", 64),
        ("long", "01", -1),
        ("string", "06666f6f", "foo"),
        ("bytes", "02ff", "\xff"),
        ("null", "", None),
    ],
)
def test_primitive(schema: str, data: str, value: object) -> None:
    """A schema may be a name alone."""
    assert AvroSchema(schema).decode(bytes.fromhex(data)) == value


def test_truncated_or_longer_value_is_an_error() -> None:
    schema = AvroSchema(ORDER)
    for size in range(len(VALUE)):
        with pytest.raises(AvroError):
            schema.decode(VALUE[:size])
    with pytest.raises(AvroError, match="1 bytes are left over"):
        schema.decode(VALUE + b"x")


@pytest.mark.parametrize(
    ("schema", "data", "expected"),
    [
        (["null", "int"], "04", "invalid union branch 2"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "02", "invalid enum symbol 1"),
        ({"type": "array", "items": "null"}, "feffffffff3f", "more than 1048576 values"),
        ("long", "ff" * 11, "has more than 10 bytes"),
        ("bytes", "01", "truncated: expected -1 bytes"),
        ("string", "02ff", "not UTF-8"),
    ],
)
def test_hostile_bytes_are_an_error_without_much_memory(schema: object, data: str, expected: str) -> None:
    with pytest.raises(AvroError, match=expected):
        AvroSchema(schema).decode(bytes.fromhex(data))


def test_recursion_is_limited() -> None:
    """A list of 300 links is rejected."""
    link = {"type": "record", "name": "Link", "fields": [{"name": "next", "type": ["null", "Link"]}]}
    with pytest.raises(AvroError, match="deep"):
        AvroSchema(link).decode(b"\x02" * 300 + b"\0")


@pytest.mark.parametrize("schema", ["Nobody", {"type": "Nobody"}, 7, {"type": "fixed", "name": "F", "size": "x"}])
def test_bad_schemas_are_errors(schema: object) -> None:
    """Unknown names, and values that are no types."""
    with pytest.raises(AvroError):
        AvroSchema(schema)
