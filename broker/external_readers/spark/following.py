"""Follow Spark queries if `pybroker.spark.checkpoints` names any. Most brokers have none, and load none of this."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from broker.external_readers.holds import RetentionHolds
    from broker.external_readers.spark.queries import SparkQueries
    from config import BrokerConfig
    from runtime.timers import Timers


def follow_queries(
    config: BrokerConfig, holds: RetentionHolds, loop: AbstractEventLoop, timers: Timers
) -> SparkQueries | None:
    """Follow the queries of the configured checkpoints, and make retention aware of them."""
    paths = config.get_list("pybroker.spark.checkpoints")
    if not paths:
        return None
    from broker.external_readers.spark.queries import SparkQueries

    interval_ms = config.get_int("pybroker.spark.checkpoints.interval.ms")
    queries = SparkQueries(paths, interval_ms, loop, timers)
    holds.add(queries)
    queries.start()
    return queries
