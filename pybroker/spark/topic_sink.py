"""Write rows to topics, at least once, like Spark's Kafka sink: a task that is retried writes its rows again."""

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

#: The security protocol of a broker without authentication.
_OPEN = "PLAINTEXT"


@dataclass
class Written(WriterCommitMessage):
    """The number of rows that a task has written; the broker acknowledged all of them."""

    count: int


class _Sink:
    """The common base of batch and stream writers."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        """Read the options. With authentication, log in once, so that a refused login fails before any task begins.

        Errors: UnusableOption; AccessDenied.
        """
        if overwrite:
            raise UnusableOption("a topic cannot be overwritten: mode('append') adds to it")
        self._columns = tuple(schema.fieldNames())
        self._options: SinkOptions = read_sink_options(options, self._columns)
        if self._options.properties.get("security.protocol", _OPEN).upper() != _OPEN:
            with Reader() as reader:
                reader.ask("reach_broker", properties=dict(self._options.properties))

    def write(self, iterator: Iterator[Any]) -> Written:
        """Send the rows of a task; return once the broker has acknowledged all of them."""
        answer = shared_reader().send_batches(
            "write_topic",
            (as_records(batch, self._columns) for batch in iterator),
            columns=list(self._columns),
            topic=self._options.topic,
            properties=dict(self._options.properties),
        )
        return Written(answer["count"])


class TopicSink(_Sink, DataSourceArrowWriter):
    """Writes the rows of a batch query."""


class TopicStreamSink(_Sink, DataSourceStreamArrowWriter):
    """Writes the rows of a streaming query, one micro-batch at a time."""
