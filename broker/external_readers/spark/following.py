"""Queries of Spark that a broker follows, where `pybroker.spark.checkpoints` names any; most need nothing of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.external_readers.spark.queries import SparkQueries


def follow_queries(broker: Broker) -> SparkQueries | None:
    """Follow the queries whose checkpoints are named, and have retention know of them."""
    config = broker.config
    paths = config.get_list("pybroker.spark.checkpoints")
    if not paths:
        return None
    from broker.external_readers.spark.queries import SparkQueries

    interval_ms = config.get_int("pybroker.spark.checkpoints.interval.ms")
    queries = SparkQueries(paths, interval_ms, broker.loop, broker.timers, tells_problems=not broker.number)
    broker.background.holds.add(queries)
    queries.start()
    return queries
