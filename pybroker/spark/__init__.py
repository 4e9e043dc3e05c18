"""Data sources for PySpark without a jar: `pybroker`, topics of a running broker, and `pybroker-log`, a data directory.

    from pybroker.spark import register
    register(spark)
    options = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}
    spark.read.format("pybroker").options(**options).load()

Needs pyspark 4.2 and pyarrow, where the driver runs and where executors do; pybroker has to be installed there, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.spark.log_source import LogSource
from pybroker.spark.topic_source import TopicSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LogSource", "TopicSource", "register"]


def register(spark: SparkSession) -> None:
    """Make both formats known to a session."""
    for source in (TopicSource, LogSource):
        spark.dataSource.register(source)
