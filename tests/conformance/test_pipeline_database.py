"""Rows into a PostgreSQL server, whose driver came by `packages`, in both modes; and while it is down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pybroker.pipeline.plan import plan
from pybroker.pipeline.spec import Pipeline, SpecError
from tests.support.brokers import RunningBroker
from tests.support.pipelines import Scenario, Supervised, produce, run
from tests.support.postgres import DRIVER, Postgres, postgres
from tests.support.specifications import document, loaded

CLASS = "org.postgresql.Driver"


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as running:
        yield running


def storing(tmp_path: Path, broker: RunningBroker, server: Postgres, topic: str, **changes: Any) -> Pipeline:
    """Return a pipeline of words into two tables: all words, and their counts."""
    statements = {
        "words": ("append", "SELECT value AS word, length(value) AS length, _timestamp AS at FROM s"),
        "counts": ("complete", "SELECT value AS word, count(*) AS n FROM s GROUP BY value"),
    }
    streams = {
        stream: {
            "from": "s", "sql": sql, "mode": mode, "trigger": "200ms",
            "sink": {"format": "jdbc", "url": server.url, "table": f"{topic}_{stream}", "packages": [DRIVER]},
        }
        for stream, (mode, sql) in statements.items()
    }  # fmt: skip
    where = {"kafka": {"bootstrap": broker.bootstrap}, "checkpoint_root": str(tmp_path / "state")}
    return loaded(tmp_path, document(**where, sources={"s": {"topics": [topic]}}, streams=streams, **changes))


def table(spark: SparkSession, server: Postgres, name: str, *columns: str) -> Counter[tuple[Any, ...]]:
    """Return the rows of a table."""
    rows = spark.read.format("jdbc").options(url=server.url, dbtable=name, driver=CLASS).load().select(*columns)
    return Counter(tuple(row) for row in rows.collect())


def test_rows_are_appended_and_counts_written_anew(
    spark: SparkSession, broker: RunningBroker, server: Postgres, tmp_path: Path
) -> None:
    """Through restarts of the pipeline. A batch whose commit was lost is appended again; the counts stay right."""
    topic = "stored"
    pipeline = storing(tmp_path, broker, server, topic)
    for words in ([b"one", b"two", b"two", "zw\u00f6lf".encode()], [b"two", b"it's"]):
        produce(broker, topic, *words)
        run(spark, pipeline)
    words = Counter({("one", 3): 1, ("two", 3): 3, ("zw\u00f6lf", 5): 1, ("it's", 4): 1})
    counts = Counter([("one", 1), ("two", 3), ("zw\u00f6lf", 1), ("it's", 1)])
    assert table(spark, server, "stored_words", "word", "length") == words
    assert table(spark, server, "stored_counts", "word", "n") == counts

    for stream in ("words", "counts"):
        for lost in ("1", ".1.crc"):
            (tmp_path / "state" / stream / "commits" / lost).unlink()
    run(spark, pipeline)
    again = Counter({("two", 3): 1, ("it's", 4): 1})
    assert table(spark, server, "stored_words", "word", "length") == words + again
    assert table(spark, server, "stored_counts", "word", "n") == counts


def test_server_that_is_away_for_a_while(
    spark: SparkSession, broker: RunningBroker, server: Postgres, tmp_path: Path
) -> None:
    """Its streams restart until the server is back, and then write the rows of the meantime."""
    topic = "awaited"
    restart = {"attempts": 60, "back_off": "200ms", "back_off_max": "1s"}
    produce(broker, topic, b"before")
    running = Supervised(spark, storing(tmp_path, broker, server, topic, restart=restart))

    def scenario() -> Scenario:
        yield lambda: running.records("words") == running.records("counts") == 1
        server.stop()
        produce(broker, topic, b"meanwhile", b"meanwhile")
        yield lambda: len(running.waits("words")) >= 2 and len(running.waits("counts")) >= 2
        server.start()
        yield lambda: running.records("words") == running.records("counts") == 3

    assert running.run(scenario()) is None
    assert table(spark, server, "awaited_words", "word") == Counter({("before",): 1, ("meanwhile",): 2})
    assert table(spark, server, "awaited_counts", "word", "n") == Counter([("before", 1), ("meanwhile", 2)])


def test_database_without_a_driver(
    spark: SparkSession, broker: RunningBroker, server: Postgres, tmp_path: Path
) -> None:
    """The error comes before anything starts."""
    pipeline = storing(tmp_path, broker, server, "nowhere")
    words = pipeline.streams["words"]
    strange = replace(words, sink=replace(words.sink, url="jdbc:strange://127.0.0.1/x"))
    problem = "there is no driver for 'jdbc:strange://127.0.0.1/x': name its jar in packages, or its class in"

    with pytest.raises(SpecError, match=rf"^streams\.words\.sink\.url: {problem} options\.driver$"):
        plan(spark, replace(pipeline, streams={"words": strange}))
    named = replace(strange, sink=replace(strange.sink, options={"driver": CLASS}))
    assert len(plan(spark, replace(pipeline, streams={"words": named}))) == 1
