"""Parse values that are one JSON document or one line of CSV.

Spark reads the first document or line of a value and ignores what follows. So something is added behind a value, which
Spark only finds in its place if the value ends there.
"""

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
_LINE_ENDS = "\r\n"


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


def csv_rows(text: Column, fields: list[StructField], options: Mapping[str, str]) -> tuple[Column, Column]:
    """Return a column `_lines`, for a text with line ends in it, and a row of it or of the text.

    A field is added behind such a text. Without it, the first line of the text is not all of it.
    """
    given = {name.lower(): value for name, value in options.items()}
    line_ends = _LINE_ENDS + given.get("linesep", "")
    separator = given.get("sep", given.get("delimiter", ",")).replace(r"\t", "\t")
    most = _most_fields(given)
    end = f"_end_{secrets.token_hex(8)}"
    columns = [*fields, StructField(CORRUPT, StringType())]

    body = f.btrim(text, f.lit(line_ends))
    has_lines = f.length(f.translate(body, line_ends, "")) < f.length(body)
    whole = f.concat(f.rtrim(text, f.lit(line_ends)), f.lit(separator + end))
    wider = {name: value for name, value in options.items() if name.lower() != "maxcolumns"}
    wider["maxColumns"] = str(most + 1)
    lines = f.from_csv(whole, _ddl([*fields, StructField(end, StringType()), columns[-1]]), _permissive(wider))
    is_whole = f.col("_lines")[end] == end
    names = [f.col("_lines")[one.name].alias(one.name) for one in columns]
    row = f.when(~has_lines, f.from_csv(text, _ddl(columns), _permissive(options))).when(is_whole, f.struct(*names))
    if len(fields) > 1:  # Spark turns an empty line into a row of nulls
        row = f.when(body != "", row)
    has_few = _has_few_fields(text, separator, most)
    return f.when(has_lines & has_few, lines), f.when(has_few, row)


def fields_of(ddl: str) -> list[StructField]:
    """Return the fields of a schema in Spark's DDL. Errors: SpecError."""
    kind = _parse_datatype_string(ddl)
    if not isinstance(kind, StructType):
        raise SpecError("parse.schema", f"{ddl!r} is not a list of fields such as id BIGINT, name STRING")
    return kind.fields


def _permissive(options: Mapping[str, str]) -> dict[str, str]:
    return {**options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}


def _ddl(fields: list[StructField]) -> str:
    return ", ".join(f"`{one.name}` {one.dataType.simpleString()}" for one in fields)


def _most_fields(given: Mapping[str, str]) -> int:
    try:
        return int(given.get("maxcolumns", _MAX_FIELDS))
    except ValueError as error:
        raise SpecError("parse.options.maxColumns", f"{given['maxcolumns']!r} is not a number") from error


def _has_few_fields(text: Column, separator: str, most: int) -> Column:
    """Whether a line of CSV is within Spark's limit of fields: for more, Spark fails in every mode."""
    in_separators = f.octet_length(text) - f.octet_length(f.replace(text, f.lit(separator)))
    return (f.octet_length(text) < most) | (in_separators < most * len(separator.encode()))
