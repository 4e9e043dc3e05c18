"""Rows into topics: each at least once, as with Spark's Kafka sink. A task that is tried again writes again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pybroker.source.columns import as_records
from pybroker.source.errors import UnusableOption
from pybroker.source.reader import Reader, shared_reader
from pybroker.source.sink_options import SinkOptions, read_sink_options

#: The protocol of those who let everybody in.
_OPEN = "PLAINTEXT"


@dataclass
class Written(WriterCommitMessage):
    """How many rows a task has written, all of them acknowledged."""

    count: int


class _Sink:
    """What writers of batches and of streams have in common."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        """Errors: UnusableOption; those of a broker that asks who one is, before any task begins."""
        if overwrite:
            raise UnusableOption("a topic cannot be overwritten: mode('append') adds to it")
        self._columns = tuple(schema.fieldNames())
        self._options: SinkOptions = read_sink_options(options, self._columns)
        if self._options.properties.get("security.protocol", _OPEN).upper() != _OPEN:
            with Reader() as reader:
                reader.ask("reach_broker", properties=dict(self._options.properties))

    def write(self, iterator: Iterator[Any]) -> Written:
        """Send a task's rows; they are acknowledged when this returns."""
        answer = shared_reader().tell(
            "write_topic",
            (as_records(batch, self._columns) for batch in iterator),
            columns=list(self._columns),
            topic=self._options.topic,
            properties=dict(self._options.properties),
        )
        return Written(answer["count"])


class TopicSink(_Sink, DataSourceArrowWriter):
    """A batch's rows."""


class TopicStreamSink(_Sink, DataSourceStreamArrowWriter):
    """A stream's rows, a micro-batch at a time."""
