"""Columns as types of Spark, without a session."""

from __future__ import annotations

import pickle

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pybroker.source.columns import COLUMNS, arrow_schema
from pybroker.source.errors import UnusableOption
from pybroker.source.ranges import OffsetRange
from pybroker.spark.log_source import LogSource, LogSplit
from pybroker.spark.schemas import columns_of
from pybroker.spark.topic_sink import TopicSink
from pybroker.spark.topic_source import TopicRange, TopicSource

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
# the schema of org.apache.spark.sql.kafka010.KafkaRecordToRowConverter
TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS,
}
USED = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}


def schema(*names: str) -> StructType:
    return StructType([StructField(name, TYPES[name]) for name in names])


def test_arrow_types_are_those_that_spark_expects() -> None:
    """Spark rejects the first batch of any other type."""
    assert to_arrow_schema(schema(*COLUMNS), timezone="UTC").equals(arrow_schema(COLUMNS))


def test_schema_of_sparks_source_is_accepted() -> None:
    assert columns_of(schema(*COLUMNS)) == COLUMNS
    assert columns_of(schema("offset", "headers")) == ("offset", "headers")


@pytest.mark.parametrize(
    "asked",
    [
        StructType([StructField("value", StringType())]),
        StructType([StructField("Value", BinaryType())]),
        StructType([StructField("text", StringType())]),
    ],
)
def test_other_columns_and_types_are_rejected(asked: StructType) -> None:
    with pytest.raises(UnusableOption, match="column"):
        columns_of(asked)


def test_options_are_checked_before_reading() -> None:
    with pytest.raises(UnusableOption, match="subscribe"):
        TopicSource({"kafka.bootstrap.servers": "localhost:9092"}).schema()
    with pytest.raises(UnusableOption, match="no path"):
        LogSource({}).schema()
    with pytest.raises(UnusableOption, match="append"):
        TopicSink({**USED, "topic": "orders"}, schema("value"), True)
    assert TopicSource({**USED, "columns": "value,offset"}).schema() == "value BINARY, offset BIGINT"


def test_task_objects_can_be_pickled() -> None:
    source = TopicSource(USED)
    wanted = schema("offset", "value")
    parts: list[InputPartition] = [TopicRange(OffsetRange("orders", 0, 5, 9)), LogSplit({"directory": "orders-0"})]

    for each in (source.reader(wanted), source.streamReader(wanted), LogSource({"path": "/data"}).reader(wanted)):
        assert type(pickle.loads(pickle.dumps(each))) is type(each)
    assert [vars(pickle.loads(pickle.dumps(part))) for part in parts] == [vars(part) for part in parts]
