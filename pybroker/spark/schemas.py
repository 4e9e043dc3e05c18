"""The columns of a source, from a Spark schema."""

from __future__ import annotations

from pyspark.sql.types import StructType

from pybroker.source.columns import SPARK_TYPES, chosen_columns
from pybroker.source.errors import UnusableOption

_SIMPLE_TYPES = {name: kind.lower().replace(": ", ":").replace(", ", ",") for name, kind in SPARK_TYPES.items()}


def columns_of(schema: StructType) -> tuple[str, ...]:
    """Return the columns of a schema: those of the source, or the subset that `spark.read.schema(...)` selects.

    Errors: UnusableOption for an unknown column or a wrong type.
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
