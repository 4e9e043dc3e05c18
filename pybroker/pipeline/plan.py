"""Turn a specification into queries that can be started.

Planning analyses all SQL against the columns of the sources. It starts nothing and reads no record.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from pybroker.pipeline.letters import dead_letters
from pybroker.pipeline.queries import Query, queries
from pybroker.pipeline.sinks import records_written, written
from pybroker.pipeline.sources import read, read_table
from pybroker.pipeline.spec import Pipeline, SpecError, Stream, Window
from pybroker.pipeline.spec.interval import spark_interval
from pybroker.schema_registry import RegistryError


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """A query whose rows and writer Spark has analysed already."""

    query: Query
    rows: DataFrame
    writer: DataStreamWriter

    def start(self, *, once: bool = False) -> StreamingQuery:
        """Start the query. `once`: end after the records that exist now, whatever the trigger is."""
        query = self.query
        writer = self.writer.queryName(query.name).option("checkpointLocation", query.checkpoint)
        if once or query.trigger == "once":
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=spark_interval(query.trigger, f"{query.path}.trigger")).start()


def plan(spark: SparkSession, pipeline: Pipeline) -> list[PlannedQuery]:
    """Return a specification's queries, analysed as Spark would at their start.

    Errors: SpecError with the path of the key that Spark rejects.
    """
    for name, table in pipeline.tables.items():
        with _at(f"tables.{name}"):
            read_table(spark, table).createOrReplaceTempView(name)
    sources = {}
    for name, source in pipeline.sources.items():
        with _at(f"sources.{name}"):
            sources[name] = read(spark, pipeline.kafka, name, source)
            sources[name].where("_error IS NULL").createOrReplaceTempView(name)
    planned = []
    for query in queries(pipeline):
        with _at(query.path):
            if query.stream is None:
                assert query.source.dead_letter is not None
                rows = dead_letters(sources[query.source_name], query.source.dead_letter.max_bytes)
                writer = records_written(rows, pipeline.kafka, query.sink)
            else:
                rows = transformed(spark, query.stream)
                writer = written(rows, pipeline.kafka, query.sink, query.mode)
            _check_streaming(spark, rows, query.mode)
        planned.append(PlannedQuery(query, rows, writer))
    return planned


def transformed(spark: SparkSession, stream: Stream) -> DataFrame:
    """Return the rows of a stream, windowed: from its SQL, or from its source without the record's own columns."""
    if stream.sql is not None:
        with _at("sql"):
            rows = spark.sql(stream.sql)
    else:
        rows = spark.table(stream.source)
        rows = rows.select(*(name for name in rows.columns if not name.startswith("_")))
    if stream.deduplicate:
        with _at("deduplicate"):
            rows = rows.dropDuplicatesWithinWatermark(stream.deduplicate)
    if stream.window is not None:
        with _at("window"):
            rows = windowed(rows, stream.window)
    return rows


def windowed(rows: DataFrame, window: Window) -> DataFrame:
    """Return aggregates by window and columns, the window as window_start and window_end."""
    if window.gap is not None:
        grouping = f.session_window(window.on, spark_interval(window.gap, "gap"))
    else:
        every = spark_interval(window.every or "", "every")
        grouping = f.window(window.on, every, spark_interval(window.slide, "slide") if window.slide else None)
    aggregates = [f.expr(expression).alias(name) for name, expression in window.aggregate.items()]
    counted = rows.groupBy(grouping.alias("_window"), *window.by).agg(*aggregates)
    return counted.select(
        f.col("_window.start").alias("window_start"), f.col("_window.end").alias("window_end"), *counted.columns[1:]
    )


def _check_streaming(spark: SparkSession, rows: DataFrame, mode: str) -> None:
    """Run Spark's own check at the start of a query: can a stream do this in this output mode?"""
    jvm = spark._jvm
    assert jvm is not None
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    chosen = {"append": modes.Append, "update": modes.Update, "complete": modes.Complete}[mode]()
    analysis = jvm.org.apache.spark.sql.catalyst.analysis
    analysis.UnsupportedOperationChecker.checkForStreaming(rows._jdf.queryExecution().analyzed(), chosen)


@contextmanager
def _at(path: str) -> Iterator[None]:
    """Turn errors of the block into a one-line SpecError at `path`, or a RegistryError with its key."""
    try:
        yield
    except SpecError as error:
        raise SpecError(f"{path}.{error.path}" if error.path else path, error.problem) from error
    except RegistryError as error:
        raise RegistryError(f"{path}.parse.registry: {error}", error.status) from error
    except PySparkException as error:
        raise SpecError(path, str(error).strip().partition("\n")[0].rstrip(";")) from error
