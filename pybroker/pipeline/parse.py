"""Parse records into columns: pure functions on DataFrames.

A parsed source has the columns of its format, then `_topic`, `_partition`, `_offset`, `_timestamp`, `_key`, `_headers`
and `_value` of the record, and `_error`: null, or why the record could not be parsed. No record is dropped here.
"""

from __future__ import annotations

import re

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import StructField, TimestampType

from pybroker.pipeline.avro import decoded
from pybroker.pipeline.csv_and_json import CORRUPT, csv_row, fields_of, json_rows
from pybroker.pipeline.patterns import groups_in_java, numbered
from pybroker.pipeline.spec import EventTime, Parse, SpecError

_RECORD = ("topic", "partition", "offset", "timestamp", "key", "headers", "value")
_SEPARATOR = "\u0001"
#: Repeated groups, for which Java's matcher recurses once for each repetition, except possessive ones (`*+`). Escaped
#: characters and classes are removed before.
_LITERAL = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]", re.DOTALL)
_REPEATED_GROUP = re.compile(r"\)(?:[*+]|\{\d+,\d*\})(?!\+)")
#: The limit of a value for such a pattern: half of the size for which the stack of a task (session.py) suffices with
#: groups that are nested six deep.
_REPEATED_MAX_BYTES = 32768


def parsed(records: DataFrame, parse: Parse) -> DataFrame:
    """Return `records`, as Spark's Kafka source gives them, with the columns that `parse` makes of their values."""
    carried = records.select(*(f.col(name).alias(f"_{name}") for name in _RECORD))
    parse = parse.written_out()
    longest = _longest(parse)
    if longest is None:
        return _columns(carried, f.col("_value"), parse)
    is_long = f.octet_length("_value") > longest
    rows = _columns(carried, f.when(~is_long, f.col("_value")), parse)
    error = f.when(is_long, f"longer than {longest} bytes").otherwise(f.col("_error"))
    return rows.withColumn("_error", error)


def _longest(parse: Parse) -> int | None:
    """Return the most bytes that a value may have; None when there is no limit."""
    if parse.max_bytes is None and _REPEATED_GROUP.search(_LITERAL.sub("", parse.pattern or "")):
        return _REPEATED_MAX_BYTES
    return parse.max_bytes


def _columns(carried: DataFrame, value: Column, parse: Parse) -> DataFrame:
    """Parse `value`, which is null when it is too long."""
    text = value.cast("string")
    match parse.format:
        case "text":
            return _with_columns(carried, {"value": text}, f.lit(None).cast("string"))
        case "raw":
            return _with_columns(carried, {"value": value}, f.lit(None).cast("string"))
        case "regex":
            return _regex(carried, text, parse.pattern or "", parse.schema)
        case "avro":
            return _avro(carried, value, parse)
        case "json":
            return _json(carried, text, parse)
        case "csv":
            return _csv(carried, text, parse)


def with_event_time(rows: DataFrame, event_time: EventTime) -> DataFrame:
    """Return `rows` with the event time as a timestamp; a row without one has an error, the others keep theirs."""
    name = event_time.column
    if name not in rows.columns:
        raise SpecError("event_time.column", f"no column {name!r}; there are: {', '.join(rows.columns)}")
    if isinstance(rows.schema[name].dataType, TimestampType):
        time = f.col(name)
    else:
        text = f.col(name).cast("string")
        time = f.try_to_timestamp(text, f.lit(event_time.format)) if event_time.format else f.try_to_timestamp(text)
        # With a format it still fails for a year beyond all timestamps, but not within try_add
        time = f.try_add(time, f.expr("INTERVAL 0 SECONDS"))
    unusable = f.when(time.isNull(), f"no event time in column {name}")
    return rows.withColumns({"_error": f.coalesce(f.col("_error"), unusable), name: time})


def _json(records: DataFrame, text: Column, parse: Parse) -> DataFrame:
    """Parse JSON: a value that is broken, of other types than the schema's, or more than one document, is an error."""
    fields = fields_of(parse.schema or "")
    parsed, row = json_rows(text, fields, parse.options)
    rows = records.withColumn("_parsed", parsed).withColumn("_row", row)
    error = f.when(text.isNull() | f.col("_row").isNull(), "no JSON of this schema")
    return _with_columns(rows, _of_row(fields), error).drop("_row", "_parsed")


def _csv(records: DataFrame, text: Column, parse: Parse) -> DataFrame:
    """Parse CSV: a value that is broken, of other types than the schema's, or more than one line, is an error."""
    fields = fields_of(parse.schema or "")
    rows = records.withColumn("_row", csv_row(text, fields, parse.options))
    is_corrupt = f.col(f"_row.{CORRUPT}").isNotNull()
    error = f.when(text.isNull() | f.col("_row").isNull() | is_corrupt, "no CSV of this schema")
    return _with_columns(rows, _of_row(fields), error).drop("_row")


def _of_row(fields: list[StructField]) -> dict[str, Column]:
    return {one.name: f.col(f"_row.`{one.name}`") for one in fields}


def _avro(records: DataFrame, value: Column, parse: Parse) -> DataFrame:
    """Parse Avro's binary encoding: a value of another schema is an error."""
    names, row, problem = decoded(value, parse)
    error = f.when(f.col("_row").isNull(), f.coalesce(problem, f.lit("no Avro of this schema")))
    columns = {name: f.col(f"_row.`{name}`") for name in names}
    return _with_columns(records.withColumn("_row", row), columns, error).drop("_row")


def _regex(records: DataFrame, text: Column, pattern: str, ddl: str | None) -> DataFrame:
    """Match each record once: join the groups by a separator and split them again, which costs less than a match each.

    The joined text also begins with a separator, so values without a match are recognised. A value that contains
    separators is matched for each group.
    """
    pattern, groups = _groups(pattern)
    kinds = {field.name: field.dataType for field in fields_of(ddl)} if ddl else {}
    if strange := sorted(set(kinds) - set(groups)):
        raise SpecError("parse.schema", f"no group of the pattern is named {', '.join(strange)}")
    whole = f"(?s)^.*?(?:{pattern}).*$"
    joined = f.regexp_replace(text, f.lit(whole), f.lit("".join(f"{_SEPARATOR}${n}" for n in groups.values())))
    apart = f.array(f.lit(""), *(f.regexp_extract(text, whole, number) for number in groups.values()))
    by_group = f.when(text.rlike(whole), apart)
    split = f.split(joined, _SEPARATOR)
    rows = records.withColumn("_groups", f.when(text.contains(_SEPARATOR), by_group).otherwise(split))
    unmatched = f.coalesce(f.size("_groups"), f.lit(0)) != len(groups) + 1
    columns = {}
    for index, name in enumerate(groups, 1):
        group = f.when(~unmatched, f.col("_groups")[index])
        columns[name] = group.try_cast(kinds[name]) if name in kinds else group
    return _with_columns(rows, columns, f.when(unmatched, "no match of the pattern")).drop("_groups")


def _groups(pattern: str) -> tuple[str, dict[str, int]]:
    """Return a Java regular expression without group names, and the numbers of its named groups, in order."""
    pattern, groups, count = numbered(pattern)
    if groups_in_java(pattern, "parse.pattern") != count:  # with (?x), for example, comments may contain brackets
        raise SpecError("parse.pattern", "the groups cannot be numbered: leave out comments")
    if not groups:
        raise SpecError("parse.pattern", "has no named group such as (?<status>...)")
    return pattern, groups


def _with_columns(records: DataFrame, columns: dict[str, Column], error: Column) -> DataFrame:
    return records.select(*(column.alias(name) for name, column in columns.items()), "*", error.alias("_error"))
