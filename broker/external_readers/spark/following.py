"""Queries of Spark that a broker follows, where `pybroker.spark.checkpoints` names any; most need nothing of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from broker.external_readers.holds import RetentionHolds
    from broker.external_readers.spark.queries import SparkQueries
    from config import BrokerConfig
    from runtime.timers import Timers


def follow_queries(
    config: BrokerConfig, holds: RetentionHolds, loop: AbstractEventLoop, timers: Timers, *, tells_problems: bool
) -> SparkQueries | None:
    """Follow the queries whose checkpoints are configured, and have retention know of them.

    `tells_problems`: whether this process logs what is wrong with them.
    """
    paths = config.get_list("pybroker.spark.checkpoints")
    if not paths:
        return None
    from broker.external_readers.spark.queries import SparkQueries

    interval_ms = config.get_int("pybroker.spark.checkpoints.interval.ms")
    queries = SparkQueries(paths, interval_ms, loop, timers, tells_problems=tells_problems)
    holds.add(queries)
    queries.start()
    return queries
