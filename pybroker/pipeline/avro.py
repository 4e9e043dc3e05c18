"""Decode Avro's binary encoding into columns, with one schema, or with the schema whose id precedes the value.

A value is decoded as the first field of a record whose second field is a constant, which is added behind it. So a value
that is too short or too long has another second field, where Spark would otherwise return a row of nulls or of wrong
values, or ignore what follows.
"""

from __future__ import annotations

import json

from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.avro.functions import from_avro

from pybroker.pipeline.registry import schemas_of
from pybroker.pipeline.spec import Parse, SpecError
from pybroker.text_files import UnreadableText, file_bytes, utf8_text

#: Behind each value. No value of another length ends just before these bytes, unless it contains them.
_END = bytes.fromhex("6f3c1d9a5b7e42c88a40e1f7d2930b6c")
#: Confluent's wire format: a zero byte, the id as four bytes, then the value.
_MAGIC, _HEAD_BYTES = b"\x00", 5
_NO_HEAD = "no Confluent wire format"


def decoded(value: Column, parse: Parse) -> tuple[list[str], Column, Column]:
    """Return the fields' names, a row of them, null where there is none, and what is wrong before a value, if anything.

    Errors: SpecError; RegistryError.
    """
    if parse.registry is None:
        return _by_one_schema(value, parse)
    schemas = schemas_of(parse.registry, parse.subject or "")
    reader = _given(parse) or list(schemas.values())[-1]
    names = _fields(reader, _path(parse, "registry"))
    by_id = _id(value)
    row = f.when(f.lit(False), None)
    for number, schema in schemas.items():
        _fields(schema, "parse.registry")
        row = row.when(by_id == number, _decoded(_behind_head(value), schema, reader))
    unknown = f.concat(f.lit("no schema of the id "), by_id.cast("string"), f.lit(f" in {parse.subject}"))
    return names, row, f.when(_unframed(value), _NO_HEAD).when(~by_id.isin(*schemas), unknown)


def _by_one_schema(value: Column, parse: Parse) -> tuple[list[str], Column, Column]:
    schema = _given(parse) or ""
    names = _fields(schema, _path(parse, "schema"))
    if parse.framing == "confluent":
        row = f.when(~_unframed(value), _decoded(_behind_head(value), schema, schema))
        return names, row, f.when(_unframed(value), _NO_HEAD)
    return names, _decoded(value, schema, schema), f.lit(None).cast("string")


def _decoded(value: Column, writer: str, reader: str) -> Column:
    """Decode a value of the schema `writer` as a row of the schema `reader`; null when it is invalid."""
    options = {"mode": "PERMISSIVE", "avroSchema": _with_end(reader)}
    found = from_avro(f.concat(value, f.lit(_END)), _with_end(writer), options)
    return f.when(found["end"] == f.lit(_END), found["value"])


def _with_end(schema: str) -> str:
    end = {"type": "fixed", "name": "_EndOfValue", "size": len(_END)}
    fields = [{"name": "value", "type": json.loads(schema)}, {"name": "end", "type": end}]
    return json.dumps({"type": "record", "name": "_ValueWithEnd", "fields": fields})


def _id(value: Column) -> Column:
    return f.conv(f.hex(f.substring(value, 2, 4)), 16, 10).cast("bigint")


def _behind_head(value: Column) -> Column:
    return f.substring(value, _HEAD_BYTES + 1, 1 << 30)


def _unframed(value: Column) -> Column:
    head = f.substring(value, 1, 1)
    return f.coalesce((f.octet_length(value) < _HEAD_BYTES) | (head != f.lit(_MAGIC)), f.lit(True))


def _given(parse: Parse) -> str | None:
    """Return the schema of the specification, or of the file that it names."""
    if parse.schema_file is None:
        return parse.schema
    try:
        return utf8_text(file_bytes(parse.schema_file))
    except OSError as error:
        raise SpecError("parse.schema_file", f"{parse.schema_file}: {error.strerror}") from error
    except UnreadableText as error:
        raise SpecError("parse.schema_file", f"{parse.schema_file}: {error}") from error


def _path(parse: Parse, otherwise: str) -> str:
    name = "schema_file" if parse.schema_file is not None else "schema" if parse.schema is not None else otherwise
    return f"parse.{name}"


def _fields(schema: str, path: str) -> list[str]:
    """Return the field names of a record schema. Errors: SpecError for any other schema."""
    try:
        found = json.loads(schema)
    except (ValueError, RecursionError) as error:
        raise SpecError(path, f"is not JSON: {error}") from error
    if not isinstance(found, dict) or found.get("type") != "record":
        raise SpecError(path, "is not the schema of a record")
    spark = SparkSession.active()
    assert spark._jvm is not None
    try:
        parsed = spark._jvm.org.apache.avro.Schema.Parser().parse(schema)
        return [field.name() for field in parsed.getFields()]
    except Py4JJavaError as error:
        raise SpecError(path, str(error.java_exception.getMessage()).partition("\n")[0]) from error
