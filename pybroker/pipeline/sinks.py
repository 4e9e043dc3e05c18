"""The writers of the kinds of sinks.

Parquet files have each row exactly once. Topics and databases get each row at least once.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamWriter

from pybroker.pipeline.sources import client_options
from pybroker.pipeline.spec import Kafka, Sink, SpecError
from pybroker.pipeline.values import near

#: The broker limits records by the topic's `max.message.bytes`. A producer's own limit is 1 MiB by default, so it is
#: raised to this size, that of its buffer.
_PRODUCER_OPTIONS = {"kafka.max.request.size": str(32 << 20)}


def written(rows: DataFrame, kafka: Kafka, sink: Sink, mode: str) -> DataStreamWriter:
    """Return the writer of a sink, in an output mode.

    Errors: SpecError at the key of the sink that names a missing column.
    """
    for index, column in enumerate(sink.partition_by):
        _check_column(rows, column, f"sink.partition_by[{index}]")
    match sink.format:
        case "kafka":
            writer = records_written(_records(rows, sink), kafka, sink)
        case "jdbc":
            driver = sink.options.get("driver") or _driver(rows, sink.url or "")
            writer = rows.writeStream.foreachBatch(_into_database(sink, driver, replace=mode == "complete"))
        case _:
            writer = rows.writeStream.format(sink.format)
            if sink.path is not None:
                writer = writer.option("path", sink.path)
            if sink.partition_by:
                writer = writer.partitionBy(*sink.partition_by)
    return writer.options(**sink.options).outputMode(mode)


def records_written(records: DataFrame, kafka: Kafka, sink: Sink) -> DataStreamWriter:
    """Return the writer of rows that are records already: key, value, optionally headers."""
    options = {**_PRODUCER_OPTIONS, **client_options(kafka), "topic": sink.topic}
    return records.writeStream.format("kafka").options(**options)


def _records(rows: DataFrame, sink: Sink) -> DataFrame:
    """Return rows as keys and values of records."""
    key = f.lit(None)
    if sink.record_key is not None:
        _check_column(rows, sink.record_key, "sink.key")
        key = f.col(sink.record_key)
    return rows.select(key.cast("string").alias("key"), f.to_json(f.struct("*")).alias("value"))


def _driver(rows: DataFrame, url: str) -> str:
    """Return the class of a database's driver: Java does not look for it in jars that came by `packages`, left alone.

    Errors: SpecError.
    """
    jvm = rows.sparkSession._jvm
    assert jvm is not None
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    drivers = jvm.java.util.ServiceLoader.load(jvm.java.lang.Class.forName("java.sql.Driver"), loader).iterator()
    while drivers.hasNext():
        driver = drivers.next()
        if driver.acceptsURL(url):
            return str(driver.getClass().getName())
    raise SpecError(
        "sink.url", f"there is no driver for {url!r}: name its jar in packages, or its class in options.driver"
    )


def _into_database(sink: Sink, driver: str, *, replace: bool) -> Callable[[DataFrame, int], None]:
    """Return a function that writes one batch: it appends the rows, or replaces the contents of the table."""
    where = {"url": sink.url, "dbtable": sink.table, "driver": driver, **sink.options}

    def write(batch: DataFrame, _number: int) -> None:
        writer = batch.write.format("jdbc").options(**where)
        writer.mode("overwrite" if replace else "append").option("truncate", "true").save()

    return write


def _check_column(rows: DataFrame, name: str, path: str) -> None:
    if name not in rows.columns:
        hint = near(name, rows.columns) or f"; there are: {', '.join(rows.columns)}"
        raise SpecError(path, f"no column {name!r}{hint}")
