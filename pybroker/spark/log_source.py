"""The format `pybroker-log`: a broker's data directory, whether the broker runs or not, a task for each segment.

Options: path (or `load(path)`), of a partition's directory or of one with several; subscribe, topics with commas
between them; startingOffset, endingOffset (a number, earliest, latest) or startingTimestamp, endingTimestamp (ms), the
same for all partitions; kafka.isolation.level; includeHeaders, columns. Every executor has to see the directory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pybroker.source.columns import spark_schema
from pybroker.source.log_options import LogOptions, read_log_options
from pybroker.source.reader import Reader, shared_reader
from pybroker.spark.schemas import columns_of


class LogSplit(InputPartition):
    """A segment's part: fields of the answer to "plan_log"."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.fields = dict(fields)


class LogSource(DataSource):
    """`spark.read.format("pybroker-log").load("data/orders-0")`."""

    @classmethod
    def name(cls) -> str:
        return "pybroker-log"

    def schema(self) -> str:
        return spark_schema(read_log_options(self.options).columns)

    def reader(self, schema: StructType) -> LogBatches:
        return LogBatches(read_log_options(self.options), columns_of(schema))


class LogBatches(DataSourceReader):
    """Records of the directory's segments."""

    def __init__(self, options: LogOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        with Reader() as reader:
            return [LogSplit(fields) for fields in reader.ask("plan_log", **self._options.wanted)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if isinstance(partition, LogSplit):  # Spark makes one of its own where there are none
            yield from shared_reader().batches("read_log", self._columns, **partition.fields)
