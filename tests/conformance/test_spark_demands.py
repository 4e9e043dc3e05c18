"""Spark's Kafka source and sink beyond reading and writing: data loss, times without records, acks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession

from protocol.records.batch import iter_batches
from pybroker.testing import Broker
from tests.support.brokers import HOST, RunningBroker
from tests.support.data_client import DataClient
from tests.support.settled import wait_for_topic
from tests.support.spark_sources import BOTH_WAYS, EPOCH_MS, WAYS, Job, opened, sorted_rows

COUNT = 100
#: exceptions of a failed batch in Spark or its Kafka source
FAILED = (PySparkException, Py4JJavaError)


@pytest.fixture
def client(reference: RunningBroker, name: str) -> Iterator[DataClient]:
    """Return a client, and a topic of two partitions called `name`."""
    with DataClient(HOST, reference.port) as client:
        client.create_topic(name, 2)
        wait_for_topic(reference, name, 2)
        yield client


def fill(bootstrap: str, topic: str, count: int, timestamp_ms: int, partition: int = 0) -> None:
    """Write records of one time, in batches of a few."""
    producer = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": 5})
    for number in range(count):
        producer.produce(topic, f"{number:0100}", partition=partition, timestamp=timestamp_ms)
    assert producer.flush(60) == 0


@BOTH_WAYS
def test_a_time_after_all_records_is_an_error_or_the_end(
    spark: SparkSession, reference: RunningBroker, way: str, client: DataClient, name: str, tmp_path: Path
) -> None:
    """For one partition of two, by the strategy, for a batch and for a stream that begins."""
    fill(reference.bootstrap, name, 10, EPOCH_MS)
    fill(reference.bootstrap, name, 10, EPOCH_MS - 1, partition=1)
    by_partition = {"startingOffsetsByTimestamp": json.dumps({name: {"0": EPOCH_MS, "1": EPOCH_MS}})}
    strategy = "startingOffsetsByTimestampStrategy"
    once = {"fetchOffset.numRetries": "1"}
    for at in (by_partition, {"startingTimestamp": EPOCH_MS}):
        for given in ({}, {strategy: "error"}):
            rows = opened(spark.read, "kafka", reference.bootstrap, subscribe=name, **once, **at, **given)
            with pytest.raises(FAILED, match="No offset matched from request"):
                rows.collect()
        rows = opened(spark.read, "kafka", reference.bootstrap, subscribe=name, **at, **{strategy: "latest"})
        assert [(row["partition"], row["offset"]) for row in sorted_rows(rows)] == [(0, each) for each in range(10)]

    job = Job(spark, reference.bootstrap, name, tmp_path / "job", "kafka")
    with pytest.raises(StreamingQueryException, match=r"No offset matched|awaitResult"):
        job.run(**once, **by_partition)
    begun = Job(spark, reference.bootstrap, name, tmp_path / "begun", "kafka")
    assert sum(begun.run(**by_partition, **{strategy: "latest"})) == 10
    fill(reference.bootstrap, name, 3, EPOCH_MS - 1, partition=1)
    assert sum(begun.run()) == 3
    assert [(row["partition"], row["offset"]) for row in begun.rows()][10:] == [(1, 10), (1, 11), (1, 12)]


def check_loss(spark: SparkSession, bootstrap: str, topic: str, directory: Path, lose: Callable[[], int]) -> None:
    """Run batches, and two streams that read COUNT records and were stopped; `lose` returns the topic's new start."""
    failing, skipping = (Job(spark, bootstrap, topic, directory / name, "kafka") for name in ("fail", "skip"))
    for job in (failing, skipping):
        assert sum(job.run()) == COUNT
    start = lose()
    assert start > COUNT

    with pytest.raises(StreamingQueryException, match="failOnDataLoss"):
        failing.run()
    assert [row["offset"] for row in failing.rows()] == list(range(COUNT))
    batch = {"subscribe": topic, "startingOffsets": json.dumps({topic: {"0": 3}})}
    with pytest.raises(FAILED, match="out of range"):
        opened(spark.read, "kafka", bootstrap, **batch).collect()

    left = [row["offset"] for row in sorted_rows(opened(spark.read, "kafka", bootstrap, subscribe=topic))]
    assert left[0] == start
    rows = opened(spark.read, "kafka", bootstrap, failOnDataLoss="false", **batch)
    assert [row["offset"] for row in sorted_rows(rows)] == left
    assert sum(skipping.run(failOnDataLoss="false")) == len(left)
    assert [row["offset"] for row in skipping.rows()] == [*range(COUNT), *left]


@BOTH_WAYS
def test_deleted_records_fail_a_query_or_are_skipped(
    spark: SparkSession, reference: RunningBroker, way: str, name: str, tmp_path: Path
) -> None:
    """Records that DeleteRecords removed before the streams read them."""
    with DataClient(HOST, reference.port) as client:
        client.create_topic(name)
        wait_for_topic(reference, name, 1)
        fill(reference.bootstrap, name, COUNT, EPOCH_MS)

        def lose() -> int:
            fill(reference.bootstrap, name, COUNT, EPOCH_MS)
            return client.delete_records(name, 0, COUNT + COUNT // 2)

        check_loss(spark, reference.bootstrap, name, tmp_path, lose)


@pytest.fixture(scope="module")
def controlled() -> Iterator[Broker]:
    """Run a broker whose time a test advances, and which can lose answers."""
    with Broker() as broker:
        yield broker


def client_of(broker: Broker) -> DataClient:
    return DataClient(HOST, int(broker.bootstrap_servers.rpartition(":")[2]))


@pytest.mark.parametrize("way", WAYS, indirect=True)
def test_expired_records_fail_a_query_or_are_skipped(
    spark: SparkSession, controlled: Broker, way: str, name: str, tmp_path: Path
) -> None:
    """By retention.ms, segment by segment, while the streams were stopped."""
    controlled.create_topic(name, config={"internal.segment.bytes": 2000, "retention.ms": 3_600_000})

    def fill_now() -> None:
        now = controlled.move_time_on(seconds=1)
        fill(controlled.bootstrap_servers, name, COUNT, round(now.timestamp() * 1000))

    def lose() -> int:
        fill_now()
        controlled.move_time_on(hours=2)
        fill_now()
        controlled.run_retention()
        with client_of(controlled) as client:
            return client.bounds(name)[0]

    fill_now()
    check_loss(spark, controlled.bootstrap_servers, name, tmp_path, lose)


@pytest.mark.parametrize("acks", ["1", "all"])
def test_a_sink_is_idempotent_with_acks_all(
    spark: SparkSession, reference: RunningBroker, client: DataClient, name: str, acks: str
) -> None:
    """Each row is there at each level of acks; with acks=all its batches have a producer id."""
    rows = spark.range(COUNT).selectExpr("CAST(id AS STRING) AS value")
    options = {"kafka.bootstrap.servers": reference.bootstrap, "topic": name, "kafka.acks": acks}
    rows.write.format("kafka").options(**options).save()

    values = [value for partition in range(2) for value in client.values(name, partition)]
    assert sorted(map(int, values)) == list(range(COUNT))
    for partition in range(2):
        batches = [header for _, header in iter_batches(bytes(client.fetch(name, 0, partition).records))]
        assert {header.producer_id >= 0 for header in batches} <= {acks == "all"}


@pytest.mark.parametrize(("acks", "again"), [("all", 0), ("1", 1)])
def test_a_sink_resends_after_a_lost_answer(
    spark: SparkSession, controlled: Broker, name: str, acks: str, again: int
) -> None:
    """An idempotent producer's repeated record is there once; another producer's, twice."""
    controlled.create_topic(name)
    rows = spark.range(COUNT).coalesce(1).selectExpr("CAST(id AS STRING) AS value")
    options = {"kafka.bootstrap.servers": controlled.bootstrap_servers, "topic": name, "kafka.acks": acks}
    controlled.disconnect_next("Produce", carried_out=True)

    rows.write.format("kafka").options(**options, **{"kafka.linger.ms": "1000"}).save()

    with client_of(controlled) as client:
        values = [int(value) for value in client.values(name)]
    assert sorted(values) == sorted([*range(COUNT), *range(COUNT * again)])
