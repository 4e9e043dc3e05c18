"""The sources of Spark: topics as streams of parsed rows, and static tables.

A source yields the rows that could be parsed. The other records go to its dead-letter topic; without one they are
dropped. Metrics of the query count them: `records` and `unparsed`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from pybroker.pipeline.parse import parsed, with_event_time
from pybroker.pipeline.patterns import groups_in_java
from pybroker.pipeline.progress import OBSERVED
from pybroker.pipeline.spec import Kafka, Source, Starting, Table
from pybroker.pipeline.spec.interval import spark_interval

_NAMED_OFFSETS = {"earliest": -2, "latest": -1}


def read(spark: SparkSession, kafka: Kafka, name: str, source: Source) -> DataFrame:
    """Return the parsed records of a source with its event time, counted under its name: SQL may read several."""
    if source.pattern is not None:
        groups_in_java(source.pattern, "pattern")
    options = {
        **client_options(kafka),
        **_subscription(source),
        **_starting(source.starting),
        "kafka.isolation.level": source.isolation,
        "failOnDataLoss": str(source.on_data_loss == "fail").lower(),
        "includeHeaders": "true",
    }
    if source.max_per_trigger is not None:
        options["maxOffsetsPerTrigger"] = str(source.max_per_trigger)
    rows = parsed(spark.readStream.format("kafka").options(**options).load(), source.parse)
    if source.event_time is not None:
        rows = with_event_time(rows, source.event_time)
    counts = [f.count(f.lit(1)).alias("records"), f.count("_error").alias("unparsed")]
    rows = rows.observe(f"{OBSERVED}{name}", *counts)
    if source.event_time is not None:
        watermark = spark_interval(source.event_time.watermark, "event_time.watermark")
        rows = rows.withWatermark(source.event_time.column, watermark)
    return rows


def read_table(spark: SparkSession, table: Table) -> DataFrame:
    """Return files as a table; without a schema, Spark infers one from the files now."""
    reader = spark.read.format(table.format).options(**table.options)
    if table.schema is not None:
        reader = reader.schema(table.schema)
    return reader.load(table.path)


def client_options(kafka: Kafka) -> Mapping[str, str]:
    """Return the options of Spark's Kafka source and sink that say where the broker is."""
    properties = {f"kafka.{name}": value for name, value in kafka.options.items()}
    return {"kafka.bootstrap.servers": kafka.bootstrap, **properties}


def _subscription(source: Source) -> Mapping[str, str]:
    if source.pattern is not None:
        return {"subscribePattern": source.pattern}
    if source.assign:
        return {"assign": json.dumps(source.assign)}
    return {"subscribe": ",".join(source.topics)}


def _starting(starting: str | Starting) -> Mapping[str, str]:
    if not isinstance(starting, Starting):
        return {"startingOffsets": starting}
    if starting.offsets is None:
        return {
            "startingTimestamp": str(starting.timestamp_ms()),
            "startingOffsetsByTimestampStrategy": "latest",
        }
    offsets = {
        topic: {partition: _NAMED_OFFSETS.get(str(offset), offset) for partition, offset in partitions.items()}
        for topic, partitions in starting.offsets.items()
    }
    return {"startingOffsets": json.dumps(offsets)}
