"""Parse values that are one JSON document or one line of CSV. Spark ignores what follows the first."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, BooleanType, StringType, StructField, StructType, _parse_datatype_string

from pybroker.pipeline.spec import SpecError

CORRUPT = "_corrupt"
"""The field of a row of CSV that is null unless its value is broken, or of other types than the schema's."""

#: Spark's default, unless the options set another.
_MAX_FIELDS = 20480
_LINE_END = "\uffff"


def json_rows(text: Column, fields: list[StructField], options: Mapping[str, str]) -> tuple[Column, Column]:
    """Return a column `_parsed`, and a row of it: null unless the text is a document.

    The document is parsed as the first of two elements of an array in an object. Anything behind the document ends the
    array too early, is a third element or is a syntax error. The names of the array and in the second element are
    random, so that no value contains them.
    """
    rows, end = f"_rows_{secrets.token_hex(8)}", f"_end_{secrets.token_hex(8)}"
    element = StructType([*fields, StructField(end, BooleanType())])
    schema = StructType([StructField(rows, ArrayType(element)), StructField(CORRUPT, StringType())])
    # A line end, because the document may end with a comment
    whole = f.concat(f.lit(f'{{"{rows}":['), text, f.lit(f'\n,{{"{end}":true}}]}}'))
    parsed = f.from_json(whole, schema, _permissive(options))
    array = f.col("_parsed")[rows]
    is_whole = f.col("_parsed")[CORRUPT].isNull() & (f.size(array) == 2) & array[1][end]
    return parsed, f.when(is_whole, array[0])


def csv_row(text: Column, fields: list[StructField], options: Mapping[str, str]) -> Column:
    """Return a row of a text, with a field for what is corrupt; null unless the text may be a line.

    For Spark a line ends at U+FFFF only; other line ends belong to a field.
    """
    given = {name.lower(): value for name, value in options.items()}
    separator = given.get("sep", given.get("delimiter", ",")).replace(r"\t", "\t")
    ddl = ", ".join(
        f"`{one.name}` {one.dataType.simpleString()}" for one in [*fields, StructField(CORRUPT, StringType())]
    )
    is_line = _has_few_fields(text, separator, _most_fields(given)) & ~text.contains(_LINE_END)
    row = f.when(is_line, f.from_csv(text, ddl, _permissive(options)))
    if len(fields) > 1:  # Spark turns an empty line into a row of nulls
        row = f.when(f.btrim(text, f.lit("\r\n")) != "", row)
    return row


def fields_of(ddl: str) -> list[StructField]:
    """Return the fields of a schema in Spark's DDL. Errors: SpecError."""
    kind = _parse_datatype_string(ddl)
    if not isinstance(kind, StructType):
        raise SpecError("parse.schema", f"{ddl!r} is not a list of fields such as id BIGINT, name STRING")
    return kind.fields


def _permissive(options: Mapping[str, str]) -> dict[str, str]:
    return {**options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}


def _most_fields(given: Mapping[str, str]) -> int:
    try:
        return int(given.get("maxcolumns", _MAX_FIELDS))
    except ValueError as error:
        raise SpecError("parse.options.maxColumns", f"{given['maxcolumns']!r} is not a number") from error


def _has_few_fields(text: Column, separator: str, most: int) -> Column:
    """Whether a line of CSV is within Spark's limit of fields: for more, Spark fails in every mode."""
    in_separators = f.octet_length(text) - f.octet_length(f.replace(text, f.lit(separator)))
    return (f.octet_length(text) < most) | (in_separators < most * len(separator.encode()))
