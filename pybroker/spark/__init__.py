"""Data sources for PySpark that need no jar: `pybroker` for topics of a broker, `pybroker-log` for a data directory.

    from pybroker.spark import register
    register(spark)
    options = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}
    spark.read.format("pybroker").options(**options).load()

The driver and all executors need pyspark 4.2, pyarrow and pybroker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.spark.log_source import LogSource
from pybroker.spark.topic_source import TopicSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LogSource", "TopicSource", "register"]


def register(spark: SparkSession) -> None:
    """Register both formats with a session."""
    for source in (TopicSource, LogSource):
        spark.dataSource.register(source)
