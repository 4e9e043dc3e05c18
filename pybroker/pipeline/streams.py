"""From a specification to running queries: one for each stream, and one for each source's dead letters.

A source's rows are those that could be parsed. The others go to its dead-letter topic; where it has none they are left
out, and counted: both counts are metrics of the query, `records` and `unparsed`.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from pybroker.pipeline.parse import parsed, with_event_time
from pybroker.pipeline.spec import Kafka, Pipeline, Sink, Source, Stream, Window

OBSERVED = "source"


def start(spark: SparkSession, pipeline: Pipeline, *, once: bool = False) -> list[StreamingQuery]:
    """Start every query. `once`: all of them end when they have read what is there now."""
    queries = []
    for name, source in pipeline.sources.items():
        rows = read(spark, pipeline.kafka, source)
        rows.where("_error IS NULL").createOrReplaceTempView(name)
        if source.dead_letter is not None:
            letters = dead_letters(rows).writeStream.format("kafka").options(**_client(pipeline.kafka))
            letters = letters.option("topic", source.dead_letter.topic)
            queries.append(
                _start(letters, pipeline, f"{name}-dead-letters", _dead_letter_trigger(pipeline, name), once=once)
            )
    for name, stream in pipeline.streams.items():
        rows = transformed(spark, pipeline, stream)
        writer = written(rows, pipeline.kafka, stream.sink).outputMode(stream.mode)
        queries.append(_start(writer, pipeline, name, stream.trigger, once=once))
    return queries


def read(spark: SparkSession, kafka: Kafka, source: Source) -> DataFrame:
    """Return a source's records, parsed, with its event time, counted."""
    options = {
        **_client(kafka),
        "startingOffsets": source.starting,
        "kafka.isolation.level": source.isolation,
        "failOnDataLoss": str(source.on_data_loss == "fail").lower(),
        "includeHeaders": "true",
    }
    if source.pattern is not None:
        options["subscribePattern"] = source.pattern
    else:
        options["subscribe"] = ",".join(source.topics)
    if source.max_per_trigger is not None:
        options["maxOffsetsPerTrigger"] = str(source.max_per_trigger)
    rows = parsed(spark.readStream.format("kafka").options(**options).load(), source.parse)
    if source.event_time is not None:
        rows = with_event_time(rows, source.event_time)
    counts = [f.count(f.lit(1)).alias("records"), f.count("_error").alias("unparsed")]
    rows = rows.observe(OBSERVED, *counts)
    if source.event_time is not None:
        rows = rows.withWatermark(source.event_time.column, source.event_time.watermark)
    return rows


def transformed(spark: SparkSession, pipeline: Pipeline, stream: Stream) -> DataFrame:
    """Return a stream's rows: of its SQL, or of its source without the record's own columns; perhaps in windows."""
    if stream.sql is not None:
        rows = spark.sql(stream.sql)
    else:
        rows = spark.table(stream.source)
        rows = rows.select(*(name for name in rows.columns if not name.startswith("_")))
    return windowed(rows, stream.window) if stream.window is not None else rows


def windowed(rows: DataFrame, window: Window) -> DataFrame:
    """Return aggregates by window and columns, the window as window_start and window_end."""
    grouped = rows.groupBy(f.window(window.on, window.every), *window.by)
    aggregates = [f.expr(expression).alias(name) for name, expression in window.aggregate.items()]
    counted = grouped.agg(*aggregates)
    return counted.select(
        f.col("window.start").alias("window_start"), f.col("window.end").alias("window_end"), *counted.columns[1:]
    )


def dead_letters(rows: DataFrame) -> DataFrame:
    """Return the records that could not be parsed as rows for Spark's Kafka sink: key and value as they came."""

    def header(name: str, column: str) -> Column:
        return f.struct(f.lit(name).alias("key"), f.col(column).cast("string").cast("binary").alias("value"))

    added = f.array(
        header("error", "_error"),
        header("topic", "_topic"),
        header("partition", "_partition"),
        header("offset", "_offset"),
    )
    headers = f.concat(f.coalesce("_headers", f.array().cast("array<struct<key:string,value:binary>>")), added)
    return rows.where("_error IS NOT NULL").select(
        f.col("_key").alias("key"), f.col("_value").alias("value"), headers.alias("headers")
    )


def written(rows: DataFrame, kafka: Kafka, sink: Sink) -> DataStreamWriter:
    """Return the writer of a sink. Parquet files are exactly once; records in a topic at least once."""
    if sink.format == "parquet":
        return rows.writeStream.format("parquet").option("path", sink.path).partitionBy(*sink.partition_by)
    value = f.to_json(f.struct("*")).alias("value")
    key = (
        f.col(sink.key).cast("string").alias("key") if sink.key is not None else f.lit(None).cast("string").alias("key")
    )
    return rows.select(key, value).writeStream.format("kafka").options(**_client(kafka)).option("topic", sink.topic)


def _client(kafka: Kafka) -> Mapping[str, str]:
    return {
        "kafka.bootstrap.servers": kafka.bootstrap,
        **{f"kafka.{key}": value for key, value in kafka.options.items()},
    }


def _dead_letter_trigger(pipeline: Pipeline, source: str) -> str:
    """The trigger of the source's first stream: dead letters come as often as rows do."""
    return next((stream.trigger for stream in pipeline.streams.values() if stream.source == source), "once")


def _start(writer: DataStreamWriter, pipeline: Pipeline, name: str, trigger: str, *, once: bool) -> StreamingQuery:
    writer = writer.queryName(name).option("checkpointLocation", f"{pipeline.checkpoint_root.rstrip('/')}/{name}")
    if once or trigger == "once":
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=trigger).start()
