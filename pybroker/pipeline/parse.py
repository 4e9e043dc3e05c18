"""From records to columns: pure functions on DataFrames.

A parsed source has the columns of its format, then `_topic`, `_partition`, `_offset`, `_timestamp`, `_key`, `_headers`
and `_value` of the record, and `_error`: null, or why the record could not be parsed. Nothing is dropped here.
"""

from __future__ import annotations

import re

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import StructField, StructType, _parse_datatype_string

from pybroker.pipeline.spec import EventTime, Parse, SpecError

# The log format "combined" of nginx, and of Apache's server
PRESETS = {
    "nginx_combined": Parse(
        format="regex",
        pattern=(
            r"^(?<remote_addr>\S+) - (?<remote_user>\S+) \[(?<time>[^\]]+)\] "
            r'"(?:(?<method>\S+) (?<path>\S+) (?<protocol>[^"]+)|[^"]*)" '  # a client may have sent anything
            r'(?<status>\d{3}) (?<bytes>\d+) "(?<referer>[^"]*)" "(?<user_agent>[^"]*)"'
        ),
        schema="status INT, bytes BIGINT",
    )
}

_RECORD = ("topic", "partition", "offset", "timestamp", "key", "headers", "value")
_NAMED = re.compile(r"\(\?<([A-Za-z]\w*)>")
_SEPARATOR = "\u0001"


def parsed(records: DataFrame, parse: Parse) -> DataFrame:
    """Return `records`, as Spark's Kafka source gives them, with the columns that `parse` makes of their values."""
    carried = records.select(*(f.col(name).alias(f"_{name}") for name in _RECORD))
    if parse.preset is not None:
        parse = PRESETS[parse.preset]
    text = f.col("_value").cast("string")
    if parse.format == "text":
        return _with_columns(carried, {"value": text}, f.lit(None).cast("string"))
    if parse.format == "json":
        return _json(carried, text, parse.schema or "")
    return _regex(carried, text, parse.pattern or "", parse.schema)


def with_event_time(rows: DataFrame, event_time: EventTime) -> DataFrame:
    """Return `rows` with the event time as a timestamp; a row without one has an error, the others keep theirs."""
    name = event_time.column
    if name not in rows.columns:
        raise SpecError("event_time.column", f"no column {name!r}; there are: {', '.join(rows.columns)}")
    text = f.col(name).cast("string")
    time = f.try_to_timestamp(text, f.lit(event_time.format)) if event_time.format else f.try_to_timestamp(text)
    unusable = f.when(f.col(name).isNull(), f"no event time in column {name}")
    return rows.withColumn(name, time).withColumn("_error", f.coalesce(f.col("_error"), unusable))


def _json(records: DataFrame, text: Column, ddl: str) -> DataFrame:
    corrupt = "_corrupt"
    schema = StructType([*_fields(ddl), StructField(corrupt, _fields("c STRING")[0].dataType)])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": corrupt}
    rows = records.withColumn("_json", f.from_json(text, schema, options))
    error = f.when(
        text.isNull() | f.col("_json").isNull() | f.col(f"_json.{corrupt}").isNotNull(), "no JSON of this schema"
    )
    columns = {field.name: f.col(f"_json.`{field.name}`") for field in schema if field.name != corrupt}
    return _with_columns(rows, columns, error).drop("_json")


def _regex(records: DataFrame, text: Column, pattern: str, ddl: str | None) -> DataFrame:
    """Match once a record: the groups are joined by a separator and split again, which costs less than a match each."""
    groups = _groups(pattern)
    kinds = {field.name: field.dataType for field in _fields(ddl)} if ddl else {}
    if strange := sorted(set(kinds) - set(groups)):
        raise SpecError("parse.schema", f"no group of the pattern is named {', '.join(strange)}")
    whole = f"(?s)^.*?(?:{_NAMED.sub('(', pattern)}).*$"
    joined = f.regexp_replace(text, f.lit(whole), f.lit(_SEPARATOR.join(f"${number}" for number in groups.values())))
    rows = records.withColumn("_groups", f.split(joined, _SEPARATOR))
    unmatched = f.coalesce(f.size("_groups"), f.lit(0)) != len(groups)
    columns = {}
    for index, name in enumerate(groups):
        group = f.when(~unmatched, f.col("_groups")[index])
        columns[name] = group.try_cast(kinds[name]) if name in kinds else group
    return _with_columns(rows, columns, f.when(unmatched, "no match of the pattern")).drop("_groups")


def _groups(pattern: str) -> dict[str, int]:
    """Return the named groups of one of Java's regular expressions and their numbers, in order."""
    try:
        groups = re.compile(_NAMED.sub(r"(?P<\1>", pattern)).groupindex
    except re.error as error:
        raise SpecError("parse.pattern", str(error)) from error
    if not groups:
        raise SpecError("parse.pattern", "has no named group such as (?<status>...)")
    return dict(groups)


def _with_columns(records: DataFrame, columns: dict[str, Column], error: Column) -> DataFrame:
    return records.select(*(column.alias(name) for name, column in columns.items()), "*", error.alias("_error"))


def _fields(ddl: str) -> list[StructField]:
    kind = _parse_datatype_string(ddl)
    assert isinstance(kind, StructType)
    return kind.fields
