"""The columns of a record, in the names, order and types of Spark's Kafka source."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pybroker.source.errors import UnusableOption

#: The type of each column, in Spark's DDL. timestampType: -1 none (format v0), 0 CreateTime, 1 LogAppendTime.
SPARK_TYPES = {
    "key": "BINARY",
    "value": "BINARY",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "timestampType": "INT",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
}
COLUMNS = tuple(SPARK_TYPES)
#: The default columns.
USUAL = tuple(name for name in COLUMNS if name != "headers")


def chosen_columns(names: Sequence[str] | None, *, headers: bool = False) -> tuple[str, ...]:
    """Return the columns in the order of `names`; without names, the default columns, and `headers` if asked for.

    Names are case-insensitive, as in Spark. Errors: UnusableOption for an empty list, a duplicate or an unknown name.
    """
    if names is None:
        return COLUMNS if headers else USUAL
    by_name = {name.lower(): name for name in COLUMNS}
    chosen = []
    for name in names:
        found = by_name.get(name.strip().lower())
        if found is None:
            raise UnusableOption(f"unknown column {name.strip()!r}: the columns are {', '.join(COLUMNS)}")
        if found in chosen:
            raise UnusableOption(f"the column {found} is chosen twice")
        chosen.append(found)
    if not chosen:
        raise UnusableOption("no column is chosen")
    return tuple(chosen)


def spark_schema(columns: Iterable[str]) -> str:
    """Return the columns in Spark's DDL."""
    return ", ".join(f"{name} {SPARK_TYPES[name]}" for name in columns)


def as_records(batch: Any, columns: Iterable[str]) -> Any:
    """Return a pyarrow.RecordBatch with the types of records; strings, for example, become bytes."""
    import pyarrow as pa

    return pa.RecordBatch.from_arrays(batch.columns, schema=arrow_schema(columns))  # this casts the columns


def arrow_schema(columns: Iterable[str]) -> Any:
    """Return the columns as a pyarrow.Schema: the one that Spark derives from `spark_schema`."""
    import pyarrow as pa

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    types = {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestampType": pa.int32(),
        "headers": pa.list_(pa.field("element", header)),
    }
    return pa.schema([(name, types[name]) for name in columns])
