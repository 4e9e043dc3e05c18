"""Dead letters: records that could not be parsed, for a topic that accepts records up to a size.

A letter has the contents of the record and the headers `error`, `topic`, `partition` and `offset`. A letter that is too
large for the topic is cut, and has a header `cut`. It keeps the beginning of its value. A key over a quarter of the
room is cut to that size, and headers over a quarter are left out.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

_HEADERS = "array<struct<key:string,value:binary>>"
#: An upper bound of the bytes in a batch of one record besides key, value and its own headers; it covers added headers.
_ADDED_BYTES = 1024
#: The most bytes that the lengths of a header's name and value need.
_LENGTHS_BYTES = 10


def dead_letters(rows: DataFrame, max_bytes: int) -> DataFrame:
    """Return the records that could not be parsed as rows for Spark's Kafka sink, of `max_bytes` at most."""
    room = max_bytes - _ADDED_BYTES
    quarter = room // 4
    key, value, headers = f.col("_key"), f.col("_value"), f.coalesce("_headers", f.array().cast(_HEADERS))
    in_key, in_value = _size(key), _size(value)
    in_headers = f.aggregate(headers, f.lit(0), lambda total, one: total + _header_size(one))

    too_large = in_key + in_value + in_headers > room
    cut_key = too_large & (in_key > quarter)
    cut_headers = too_large & (in_headers > quarter)
    left = room - f.when(cut_key, quarter).otherwise(in_key) - f.when(cut_headers, 0).otherwise(in_headers)
    cut_value = too_large & (in_value > left)
    columns = [
        f.when(cut, f.concat(f.lit(f"{name} of "), size.cast("string"), f.lit(" bytes")))
        for name, size, cut in (
            *(("key", in_key, cut_key), ("headers", in_headers, cut_headers), ("value", in_value, cut_value)),
        )
    ]
    added = [_header(name, f.col(f"_{name}")) for name in ("error", "topic", "partition", "offset")]
    return rows.where("_error IS NOT NULL").select(
        f.when(cut_key, f.substring(key, 1, quarter)).otherwise(key).alias("key"),
        f.when(cut_value, f.substring(value, f.lit(1), left)).otherwise(value).alias("value"),
        f.concat(
            f.when(~cut_headers, headers).otherwise(f.array().cast(_HEADERS)),
            f.array(*added),
            f.when(too_large, f.array(_header("cut", f.concat_ws(", ", *columns)))).otherwise(f.array().cast(_HEADERS)),
        ).alias("headers"),
    )


def _header(name: str, value: Column) -> Column:
    return f.struct(f.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))


def _header_size(header: Column) -> Column:
    return _size(header["key"]) + _size(header["value"]) + _LENGTHS_BYTES


def _size(column: Column) -> Column:
    return f.coalesce(f.octet_length(column), f.lit(0))
