"""Parse records into columns: pure functions on DataFrames.

A parsed source has the columns of its format, then `_topic`, `_partition`, `_offset`, `_timestamp`, `_key`, `_headers`
and `_value` of the record, and `_error`: null, or why the record could not be parsed. No record is dropped here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType, TimestampType, _parse_datatype_string

from pybroker.pipeline.avro import decoded
from pybroker.pipeline.patterns import groups_in_java, numbered
from pybroker.pipeline.spec import EventTime, Parse, SpecError

_RECORD = ("topic", "partition", "offset", "timestamp", "key", "headers", "value")
_SEPARATOR = "\u0001"
_CORRUPT = "_corrupt"
#: Spark's default, unless the options set another.
_MAX_FIELDS = 20480
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
        case "json" | "csv":
            return _structured(carried, text, parse)


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


def _structured(records: DataFrame, text: Column, parse: Parse) -> DataFrame:
    """Parse JSON or CSV: a value that is broken, or of other types than the schema's, is an error."""
    fields = _fields(parse.schema or "")
    options = {**parse.options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    schema = StructType([*fields, StructField(_CORRUPT, StringType())])
    if parse.format == "json":
        row = f.from_json(text, schema, options)
    else:
        ddl = ", ".join(f"`{one.name}` {one.dataType.simpleString()}" for one in schema)
        row = f.when(_has_few_fields(text, parse.options), f.from_csv(text, ddl, options))
        if len(fields) > 1:  # Spark turns an empty line into a row of nulls
            row = f.when(f.btrim(text, f.lit("\r\n")) != "", row)
    error = f.when(
        text.isNull() | f.col("_row").isNull() | f.col(f"_row.{_CORRUPT}").isNotNull(),
        f"no {parse.format.upper()} of this schema",
    )
    columns = {one.name: f.col(f"_row.`{one.name}`") for one in fields}
    return _with_columns(records.withColumn("_row", row), columns, error).drop("_row")


def _has_few_fields(text: Column, options: Mapping[str, str]) -> Column:
    """Whether a line of CSV is within Spark's limit of fields: for more, Spark fails in every mode."""
    given = {name.lower(): value for name, value in options.items()}
    try:
        max_columns = int(given.get("maxcolumns", _MAX_FIELDS))
    except ValueError as error:
        raise SpecError("parse.options.maxColumns", f"{given['maxcolumns']!r} is not a number") from error
    separator = given.get("sep", given.get("delimiter", ",")).replace(r"\t", "\t")
    in_separators = f.octet_length(text) - f.octet_length(f.replace(text, f.lit(separator)))
    return (f.octet_length(text) < max_columns) | (in_separators < max_columns * len(separator.encode()))


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
    kinds = {field.name: field.dataType for field in _fields(ddl)} if ddl else {}
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


def _fields(ddl: str) -> list[StructField]:
    kind = _parse_datatype_string(ddl)
    if not isinstance(kind, StructType):
        raise SpecError("parse.schema", f"{ddl!r} is not a list of fields such as id BIGINT, name STRING")
    return kind.fields
