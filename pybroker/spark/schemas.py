"""Columns of a source as Spark's schemas have them."""

from __future__ import annotations

from pyspark.sql.types import StructType

from pybroker.source.columns import SPARK_TYPES, chosen_columns
from pybroker.source.errors import UnusableOption

_SIMPLE_TYPES = {name: kind.lower().replace(": ", ":").replace(", ", ",") for name, kind in SPARK_TYPES.items()}


def columns_of(schema: StructType) -> tuple[str, ...]:
    """The columns that a schema asks for: the source's own, or what `spark.read.schema(...)` narrows it to.

    Errors: UnusableOption for a column that there is not, and for another type.
    """
    names = schema.fieldNames()
    columns = chosen_columns(names)
    for column, field in zip(columns, schema.fields, strict=True):
        kind = field.dataType.simpleString()
        if (column, _SIMPLE_TYPES[column]) != (field.name, kind):
            raise UnusableOption(
                f"the column {column} has the type {SPARK_TYPES[column]}; asked for: {field.name} {kind}"
            )
    return columns
