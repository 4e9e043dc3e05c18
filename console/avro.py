"""Decode records by an Avro schema that the user enters.

A value is the plain datum, or begins with the header that clients of schema registries write: a zero byte and the
schema's id in four bytes.
"""

from __future__ import annotations

from typing import Any

from pybroker.cli.client.avro import AvroError, AvroSchema
from pybroker.cli.client.avro import parse_schema as parse

_HEAD_BYTES = 5
_LONGEST_SCHEMA = 30_000
#: The limit of a value's parts: a page has hundreds of values.
_MOST_VALUES = 100_000


def parse_schema(text: str) -> AvroSchema:
    """Parse a schema in JSON, or the name of a primitive type. Raises AvroError."""
    if len(text) > _LONGEST_SCHEMA:
        raise AvroError(f"a schema has at most {_LONGEST_SCHEMA} characters here")
    return parse(text)


def decode(schema: AvroSchema, data: bytes) -> Any:
    """Return the value, with bytes in hexadecimal. Raises AvroError."""
    problem = AvroError("it is empty")
    for start in (_HEAD_BYTES, 0) if data[:1] == b"\0" and len(data) >= _HEAD_BYTES else (0,):
        try:
            return schema.decode(data[start:], limit=_MOST_VALUES, octets=_hex)
        except AvroError as found:
            problem = found
    raise problem


def _hex(data: bytes) -> str:
    return f"0x{data.hex()}"
