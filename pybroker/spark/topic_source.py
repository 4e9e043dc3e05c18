"""The format `pybroker`: read topics of a running broker in batches and streams, and write to them, without a jar.

It has the options of Spark's Kafka source and sink, and `columns` (source/topic_options.py, source/sink_options.py).
The position of a stream has the form of Spark's Kafka source: {"orders": {"0": 23}}.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from pybroker.source.bounds import LATEST, OFFSET, Bound, TopicPartition
from pybroker.source.columns import spark_schema
from pybroker.source.positions import (
    Positions,
    begun_by,
    ends_of,
    limit_ends,
    read_positions,
    stream_ranges,
    written_positions,
)
from pybroker.source.ranges import OffsetRange, bounded_ends, split_ranges
from pybroker.source.reader import Reader, shared_reader
from pybroker.source.topic_options import TopicOptions, read_options
from pybroker.spark.schemas import columns_of
from pybroker.spark.topic_sink import TopicSink, TopicStreamSink

_AT_THE_END = Bound(OFFSET, LATEST)


class TopicRange(InputPartition):
    """A range of offsets of one partition."""

    def __init__(self, offsets: OffsetRange) -> None:
        self.offsets = offsets


class TopicSource(DataSource):
    """`spark.read.format("pybroker")`, `spark.readStream`, `rows.write`, `rows.writeStream`."""

    @classmethod
    def name(cls) -> str:
        return "pybroker"

    def schema(self) -> str:
        return spark_schema(read_options(self.options, streaming=None).columns)

    def reader(self, schema: StructType) -> TopicBatches:
        return TopicBatches(read_options(self.options, streaming=False), columns_of(schema))

    def streamReader(self, schema: StructType) -> TopicStream:  # noqa: N802 - Spark's name
        return TopicStream(read_options(self.options, streaming=True), columns_of(schema))

    def writer(self, schema: StructType, overwrite: bool) -> TopicSink:
        return TopicSink(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> TopicStreamSink:  # noqa: N802
        return TopicStreamSink(self.options, schema, overwrite)


class _Ranges:
    """The common base of batches and streams: it reads the records of ranges."""

    def __init__(self, options: TopicOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def _split(self, ranges: Sequence[OffsetRange]) -> list[InputPartition]:
        split = split_ranges(
            ranges, at_least=self._options.min_partitions, most_records=self._options.max_records_per_partition
        )
        return [TopicRange(each) for each in split]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, TopicRange):  # without partitions Spark passes a plain InputPartition
            return
        yield from shared_reader().batches(
            "read_topic",
            self._columns,
            properties=dict(self._options.properties),
            fail_on_data_loss=self._options.fail_on_data_loss,
            **partition.offsets._asdict(),
        )


class TopicBatches(_Ranges, DataSourceReader):
    """Reads the records between two bounds, which are resolved when the query is planned."""

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        with Reader() as reader:
            planned = reader.ask(
                "plan_topics", start=options.start.to_json(), end=options.end.to_json(), **options.wanted
            )
        return self._split(
            [OffsetRange(each["topic"], each["partition"], each["start"], each["end"]) for each in planned]
        )


class TopicStream(_Ranges, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads micro-batches. Each has the offsets at which it ends.

    When partitions are read from their end on, the first batch is empty. Spark stores the end of that batch, so a query
    that is stopped and started again continues from there.
    """

    def __init__(self, options: TopicOptions, columns: tuple[str, ...]) -> None:
        super().__init__(options, columns)
        self._reader = Reader()
        #: Where the query begins. Spark asks several times during the first batch, and stores no answer.
        self._initial: dict[str, dict[str, int]] | None = None
        #: Whether that batch is planned: from then on Spark has stored its end.
        self._has_begun = False
        #: With Trigger.AvailableNow, the end of the query, whatever is appended in the meantime.
        self._final: Positions | None = None

    def initialOffset(self) -> dict[str, dict[str, int]]:  # noqa: N802
        if self._initial is None:
            start = self._options.start.to_json()
            planned = self._reader.ask("plan_topics", start=start, end=start, **self._options.wanted)
            positions = {(each["topic"], each["partition"]): each["start"] for each in planned}
            self._initial = written_positions(positions)
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        limit = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, dict[str, int]]:  # noqa: N802
        begun = read_positions(start)
        earliest, latest = self._ends()
        ends = ends_of(begun, latest, fail_on_data_loss=self._options.fail_on_data_loss)
        if self._final is not None:
            ends = limit_ends(self._final, begun, ends)
        if start == self._initial and not self._has_begun:
            ends |= {place: offset for place, offset in begun.items() if self._options.start.of(*place) == _AT_THE_END}
        if isinstance(limit, ReadMaxRows):
            starts = {place: begun.get(place, earliest.get(place, 0)) for place in ends}
            ends = bounded_ends(starts, ends, limit.max_rows)
        return written_positions(ends)

    def reportLatestOffset(self) -> dict[str, dict[str, int]]:  # noqa: N802
        return written_positions(self._ends()[1])

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._final = self._ends()[1]

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begun, ended = read_positions(start), read_positions(end)
        if start == self._initial:
            begun = begun_by(begun, ended, self._options.start)
        self._has_begun = True
        new = [place for place in ended if place not in begun]
        earliest: Mapping[TopicPartition, int] = self._ends()[0] if new else {}
        return self._split(stream_ranges(begun, ended, earliest, fail_on_data_loss=self._options.fail_on_data_loss))

    def stop(self) -> None:
        self._reader.close()

    def _ends(self) -> tuple[Positions, Positions]:
        """Return the first offset of each partition, and the offset after its last record."""
        ends = self._reader.ask("topic_ends", **self._options.wanted)
        earliest = {(topic, partition): first for topic, partition, first, _ in ends}
        return earliest, {(topic, partition): behind for topic, partition, _, behind in ends}
