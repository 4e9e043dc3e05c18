"""Avro by a schema that somebody enters, to look at records.

A value is the datum alone, or has the head that schema registries' clients write before it: a zero byte and four bytes
of the schema's id.
"""

from __future__ import annotations

from typing import Any

from pybroker.cli.client.avro import AvroError, AvroSchema
from pybroker.cli.client.avro import parse_schema as parse

_HEAD_BYTES = 5
_LONGEST_SCHEMA = 30_000
#: Of a value's parts: a page has hundreds of values.
_MOST_VALUES = 100_000


def parse_schema(text: str) -> AvroSchema:
    """A schema in JSON, or the name of a primitive type. AvroError."""
    if len(text) > _LONGEST_SCHEMA:
        raise AvroError(f"a schema has at most {_LONGEST_SCHEMA} characters here")
    return parse(text)


def decode(schema: AvroSchema, data: bytes) -> Any:
    """The value, with bytes in hexadecimal. AvroError."""
    problem = AvroError("it is empty")
    for start in (_HEAD_BYTES, 0) if data[:1] == b"\0" and len(data) >= _HEAD_BYTES else (0,):
        try:
            return schema.decode(data[start:], most=_MOST_VALUES, octets=_hex)
        except AvroError as found:
            problem = found
    raise problem


def _hex(data: bytes) -> str:
    return f"0x{data.hex()}"
