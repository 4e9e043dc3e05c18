"""The format `pybroker-log`: a data directory of a running or stopped broker, or remote storage. A segment is a task.

Options: path (or `load(path)`), the directory of one partition or of several; subscribe, a comma-separated list of
topics; startingOffset and endingOffset (a number, earliest, latest), or startingTimestamp and endingTimestamp (ms), the
same for all partitions; kafka.isolation.level; includeHeaders, columns. Every executor must see the directory.
A path s3://, gs:// or az:// is remote storage; the option `remote` is such a URL, or one of file://, beside a path or
without one. Options `storage.KEY` are keys of the storage class pybroker.ObjectStore, such as storage.endpoint.url.
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
    """A part of a segment: the fields of a response to "plan_log"."""

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
    """Reads the records of the segments of the directory."""

    def __init__(self, options: LogOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        with Reader() as reader:
            return [LogSplit(fields) for fields in reader.ask("plan_log", **self._options.wanted)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if isinstance(partition, LogSplit):  # without partitions Spark passes a plain InputPartition
            yield from shared_reader().batches("read_log", self._columns, **partition.fields)
