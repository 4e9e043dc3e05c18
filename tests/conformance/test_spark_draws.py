"""Spark's sources without a jar return the same as its own Kafka source: compacted topics, and random ranges."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import reduce
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

from pybroker.source.bounds import EARLIEST, LATEST
from pybroker.source.columns import COLUMNS
from pybroker.source.log_options import read_log_options
from pybroker.source.reader import Reader
from pybroker.source.topic_options import read_options
from pybroker.spark import log_source, register, topic_source
from pybroker.testing import Broker
from tests.support.compacted import CLEANED, KEYS, SEGMENTS, UNTOUCHED, begin, fill_compacted
from tests.support.data_client import DataClient
from tests.support.scale import scaled
from tests.support.spark_sources import fill_topic, opened, sorted_rows

pytestmark = pytest.mark.full_size  # drawn at random; test_spark_sources.py has each kind

WHOLE, COMPACTED = "drawn", "drawn-compacted"
PARTITIONS = 3
COUNT = min(400, scaled(100))
#: Each look-up by time takes Spark a job of its own, so they are few. Offsets come from the rows of one job.
DRAWN_OFFSETS, DRAWN_TIMES = min(1000, scaled(60)), min(100, scaled(7))
TOPICS = (WHOLE, COMPACTED)
LEVELS = ("read_uncommitted", "read_committed")
#: for times later than all records
LATE = {"startingOffsetsByTimestampStrategy": "latest"}

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """Run a broker with both topics, each with an open transaction, and records before its start."""
    with Broker(UNTOUCHED) as broker:
        broker.create_topic(WHOLE, PARTITIONS, SEGMENTS)
        fill_topic(broker.bootstrap_servers, WHOLE, PARTITIONS, COUNT)
        broker.create_topic(COMPACTED, PARTITIONS, {**SEGMENTS, **CLEANED})
        fill_compacted(broker, COMPACTED, PARTITIONS, COUNT // 5, random.Random(5))
        under_way = [begin(broker, topic, PARTITIONS) for topic in TOPICS]
        yield broker
        for producer in under_way:
            producer.abort_transaction(30)


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """Spark with both formats."""
    register(spark)
    return spark


@pytest.mark.parametrize("level", LEVELS)
def test_compacted_topic(session: SparkSession, broker: Broker, level: str) -> None:
    """The rows that a cleaner left, with the remains of transactions and tombstones."""
    options = {"subscribe": COMPACTED, "includeHeaders": "true", "kafka.isolation.level": level}
    expected = sorted_rows(opened(session.read, "kafka", broker.bootstrap_servers, **options))

    assert sorted_rows(opened(session.read, "pybroker", broker.bootstrap_servers, **options)) == expected
    stored = session.read.format("pybroker-log").options(**options).load(str(broker.data_directory))
    assert sorted_rows(stored) == expected
    with client_of(broker) as client:
        ends = [client.bounds(COMPACTED, partition)[1] for partition in range(PARTITIONS)]
    assert KEYS * PARTITIONS < len(expected) < sum(ends) * 2 // 3


@pytest.fixture
def one_child(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use one child for all requests of both sources: a start for each plan would take most of the time."""
    with Reader() as reader:
        for module in (topic_source, log_source):
            monkeypatch.setattr(module, "Reader", lambda: nullcontext(reader))
            monkeypatch.setattr(module, "shared_reader", lambda: reader)
        yield


@pytest.fixture(scope="module")
def everything(session: SparkSession, broker: Broker) -> dict[tuple[str, str], Rows]:
    """Return the rows of Spark's own source for each topic, at each level."""
    places = [(topic, level) for topic in TOPICS for level in LEVELS]
    draws = [{"subscribe": topic, "kafka.isolation.level": level} for topic, level in places]
    return dict(zip(places, rows_of_kafka(session, broker, draws), strict=True))


@pytest.mark.usefixtures("one_child")
@pytest.mark.parametrize("topic", TOPICS)
def test_offsets_at_random(broker: Broker, everything: dict[tuple[str, str], Rows], topic: str) -> None:
    """Partitions, their first and last offsets, isolation levels, columns."""
    dice, some = random.Random(topic), 0
    for _ in range(DRAWN_OFFSETS):
        level, partitions, options = drawn_partitions(dice, topic)
        rows = everything[topic, level]
        ends = {each: max(row["offset"] for row in rows if row["partition"] == each) + 1 for each in partitions}
        pairs = {each: sorted(dice.choices(range(ends[each] + 1), k=2)) for each in partitions}
        starts, stops = (
            {each: place if dice.random() < 0.1 else pair[side] for each, pair in pairs.items()}
            for side, place in enumerate((EARLIEST, LATEST))
        )
        options |= {"startingOffsets": json.dumps({topic: starts}), "endingOffsets": json.dumps({topic: stops})}
        ends |= {each: stop for each, stop in stops.items() if stop != LATEST}
        expected = [row for row in rows if row["partition"] in starts]
        expected = [row for row in expected if starts[row["partition"]] <= row["offset"] < ends[row["partition"]]]
        check(broker, dice, options, expected)
        some += bool(expected)
    assert some > DRAWN_OFFSETS // 2


@pytest.mark.usefixtures("one_child")
@pytest.mark.parametrize("topic", TOPICS)
def test_times_at_random(session: SparkSession, broker: Broker, topic: str) -> None:
    """For all partitions or for each; times of records and markers, or later ones."""
    dice = random.Random(topic)
    with client_of(broker) as client:
        records = [record for partition in range(PARTITIONS) for record in client.read_all(topic, partition)]
    times = sorted({record.timestamp for record in records})
    draws = []
    for _ in range(DRAWN_TIMES):
        _, partitions, options = drawn_partitions(dice, topic)
        pairs = {each: sorted(dice.choice(times) + dice.randint(-1, 1) for _ in range(2)) for each in partitions}
        for place, side in enumerate(("starting", "ending")):
            if dice.random() < 0.5:
                of_each = {each: pair[place] for each, pair in pairs.items()}
                options[f"{side}OffsetsByTimestamp"] = json.dumps({topic: of_each})
            else:  # a partition's end must not lie before its start, where Spark's own source fails
                options[f"{side}Timestamp"] = str((min, max)[place](pair[place] for pair in pairs.values()))
        draws.append(options)

    found = rows_of_kafka(session, broker, draws)

    assert any(found)
    for options, expected in zip(draws, found, strict=True):
        check(broker, dice, options, expected)


def drawn_partitions(dice: random.Random, topic: str) -> tuple[str, list[int], dict[str, str]]:
    """Return an isolation level, partitions, and the options for them."""
    level = dice.choice(LEVELS)
    partitions = sorted(dice.sample(range(PARTITIONS), dice.randint(1, PARTITIONS)))
    wanted = {"subscribe": topic} if len(partitions) == PARTITIONS else {"assign": json.dumps({topic: partitions})}
    return level, partitions, {"kafka.isolation.level": level, **wanted}


def check(broker: Broker, dice: random.Random, options: Mapping[str, str], rows: Rows) -> None:
    """Check that both sources return these rows, with random columns; the directory if it knows the options."""
    columns = dice.sample(COLUMNS, dice.randint(1, len(COLUMNS)))
    expected = [{name: row[name] for name in columns} for row in rows]
    chosen = {**options, "columns": ",".join(columns)}
    split = {"maxRecordsPerPartition": f"{dice.randint(5, 500)}"}
    assert rows_of_topic(broker, {**chosen, **split}) == expected, chosen
    if not any("OffsetsByTimestamp" in name for name in options):
        assert rows_of_directory(broker, chosen) == expected, chosen


def rows_of_kafka(session: SparkSession, broker: Broker, draws: Sequence[dict[str, str]]) -> list[Rows]:
    """Return the rows of Spark's own source for each of the draws, in order."""
    more = {"includeHeaders": "true", **LATE}
    frames = [
        opened(session.read, "kafka", broker.bootstrap_servers, **more, **options).withColumn("draw", lit(number))
        for number, options in enumerate(draws)
    ]
    found: list[Rows] = [[] for _ in draws]
    for row in reduce(DataFrame.unionAll, frames).toArrow().to_pylist():
        found[row["draw"]].append(row)
    return [sorted(rows, key=lambda row: (row["partition"], row["offset"])) for rows in found]


def rows_of_topic(broker: Broker, options: Mapping[str, str]) -> Rows:
    """Read over the wire."""
    read = read_options({"kafka.bootstrap.servers": broker.bootstrap_servers, **LATE, **options}, streaming=False)
    return rows_of(topic_source.TopicBatches(read, read.columns))


def rows_of_directory(broker: Broker, options: Mapping[str, str]) -> Rows:
    """Read the files of the running broker."""
    read = read_log_options({"path": str(broker.data_directory), **options})
    return rows_of(log_source.LogBatches(read, read.columns))


def rows_of(batches: topic_source.TopicBatches | log_source.LogBatches) -> Rows:
    """Return the rows as Spark's tasks read them, one after the other."""
    return [row for split in batches.partitions() for batch in batches.read(split) for row in batch.to_pylist()]


def client_of(broker: Broker) -> DataClient:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    return DataClient(host, int(port))
