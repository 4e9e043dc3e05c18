"""Spark Structured Streaming against the broker: it reads and writes topics, resumes, and sees added partitions.

Each test writes numbered records and compares count and checksum of the rows that Spark read with the acknowledged
ones.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from tests.support.brokers import RunningBroker
from tests.support.eventually import eventually
from tests.support.scale import COSTLY_BROKERS, scaled
from tests.support.settled import wait_for_topic
from tests.support.spark_sources import BOTH_WAYS, COSTLY_BOTH_WAYS

COUNT = scaled(2000)
EPOCH_MS = 1_700_000_000_000
PARTITIONS = 3


@dataclass(frozen=True, slots=True)
class Summary:
    """The number of records, and the sum of their values' CRC-32."""

    count: int
    checksum: int


@pytest.fixture
def admin(reference: RunningBroker) -> AdminClient:
    """Return an admin client."""
    return AdminClient({"bootstrap.servers": reference.bootstrap})


@pytest.fixture
def topic(reference: RunningBroker, admin: AdminClient, name: str) -> str:
    """Create a topic of some partitions."""
    create(reference, admin, name)
    return name


def create(broker: RunningBroker, admin: AdminClient, topic: str) -> None:
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()
    wait_for_topic(broker, topic, PARTITIONS)


def produce(broker: RunningBroker, topic: str, numbers: range, **where: Any) -> Summary:
    """Write value-N with the timestamp EPOCH_MS + N for each number; return their summary once acknowledged."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5, "compression.type": "lz4"})
    for number in numbers:
        producer.produce(topic, b"value-%d" % number, timestamp=EPOCH_MS + number, **where)
        producer.poll(0)
    assert producer.flush(60) == 0
    return summary(b"value-%d" % number for number in numbers)


def summary(values: Iterator[bytes]) -> Summary:
    count = checksum = 0
    for value in values:
        count, checksum = count + 1, checksum + zlib.crc32(value)
    return Summary(count, checksum)


def summed(rows: DataFrame) -> Summary:
    """Return the summary of rows of Spark's Kafka source."""
    row = rows.agg(f.count("*"), f.coalesce(f.sum(f.crc32("value")), f.lit(0))).collect()[0]
    return Summary(row[0], row[1])


def source(reader: Any, broker: RunningBroker, topic: str, **options: object) -> DataFrame:
    """Return the Kafka source over `topic`, of `spark.read` or `spark.readStream`."""
    given: dict[str, object] = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, **options}
    if "subscribePattern" in given:
        del given["subscribe"]
    rows: DataFrame = reader.format("kafka").options(**given).load()
    return rows


class Job:
    """A streaming query into Parquet files, with its checkpoint, which can be run again."""

    def __init__(self, directory: Path) -> None:
        self._checkpoint = str(directory / "checkpoint")
        self._path = str(directory / "rows")

    def start(self, rows: DataFrame, **trigger: Any) -> StreamingQuery:
        writer = rows.writeStream.format("parquet").option("path", self._path)
        return writer.option("checkpointLocation", self._checkpoint).trigger(**trigger).start()

    def run(self, rows: DataFrame) -> list[int]:
        """Run until all present records are read; return how many records each batch had."""
        query = self.start(rows, availableNow=True)
        assert query.awaitTermination(120)
        assert query.exception() is None
        return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]

    def result(self, spark: SparkSession) -> Summary:
        return summed(spark.read.parquet(self._path))


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A job of the test's own."""
    return Job(tmp_path)


@BOTH_WAYS
def test_batch_from_earliest_in_many_tasks(spark: SparkSession, reference: RunningBroker, way: str, topic: str) -> None:
    """minPartitions cuts the offset ranges of few partitions into more tasks.

    Each range gets its rounded share of them.
    """
    written = produce(reference, topic, range(COUNT))

    rows = source(spark.read, reference, topic, minPartitions=8)

    assert rows.rdd.getNumPartitions() > PARTITIONS
    assert summed(rows) == written


@BOTH_WAYS
@pytest.mark.parametrize("option", ["startingTimestamp", "startingOffsetsByTimestamp"])
def test_batch_from_a_timestamp(
    spark: SparkSession, reference: RunningBroker, way: str, topic: str, option: str
) -> None:
    """ListOffsets with a time: the first record of each partition that is not older."""
    since = COUNT // 3
    for partition in range(PARTITIONS):
        produce(reference, topic, range(COUNT), partition=partition)
    at = str(EPOCH_MS + since)
    by_partition = ", ".join(f'"{partition}": {at}' for partition in range(PARTITIONS))
    value = at if option == "startingTimestamp" else f'{{"{topic}": {{{by_partition}}}}}'

    once = summary(b"value-%d" % number for number in range(since, COUNT))

    found = summed(source(spark.read, reference, topic, **{option: value}))
    assert found == Summary(PARTITIONS * once.count, PARTITIONS * once.checksum)


@BOTH_WAYS
def test_stream_in_batches_of_a_size(
    spark: SparkSession, reference: RunningBroker, way: str, topic: str, job: Job
) -> None:
    """AvailableNow with maxOffsetsPerTrigger: several batches, none above the limit, and the end."""
    written = produce(reference, topic, range(COUNT))
    limit = math.ceil(COUNT / 4)

    batches = job.run(
        source(spark.readStream, reference, topic, startingOffsets="earliest", maxOffsetsPerTrigger=limit)
    )

    assert job.result(spark) == written
    assert len(batches) >= 4
    assert max(batches) <= limit


@BOTH_WAYS
def test_stream_from_latest(spark: SparkSession, reference: RunningBroker, way: str, topic: str, job: Job) -> None:
    """Only records after the start."""
    produce(reference, topic, range(COUNT))
    query = job.start(
        source(spark.readStream, reference, topic, startingOffsets="latest"), processingTime="200 milliseconds"
    )
    try:
        wait_for(lambda: bool(query.lastProgress) or None, query)
        written = produce(reference, topic, range(COUNT, COUNT + 100))
        wait_for(lambda: sum(p["numInputRows"] for p in query.recentProgress) >= 100 or None, query)
    finally:
        query.stop()

    assert job.result(spark) == written


@BOTH_WAYS
def test_stream_sees_added_partitions(
    spark: SparkSession, reference: RunningBroker, way: str, topic: str, job: Job, admin: AdminClient
) -> None:
    """A checkpoint with fewer partitions continues with more: new ones are read from their beginning."""
    rows = source(spark.readStream, reference, topic, startingOffsets="earliest")
    first = produce(reference, topic, range(100))
    job.run(rows)

    admin.create_partitions([NewPartitions(topic, PARTITIONS + 1)])[topic].result()
    wait_for_topic(reference, topic, PARTITIONS + 1)
    second = produce(reference, topic, range(100, 200), partition=PARTITIONS)
    job.run(rows)

    assert job.result(spark) == Summary(first.count + second.count, first.checksum + second.checksum)


@BOTH_WAYS
def test_stream_by_pattern_sees_a_new_topic(
    spark: SparkSession, reference: RunningBroker, way: str, name: str, job: Job, admin: AdminClient
) -> None:
    """subscribePattern while the query runs: it includes a later topic.

    A consumer looks for new topics every metadata.max.age.ms, whatever the broker.
    """
    create(reference, admin, f"{name}-one")
    first = produce(reference, f"{name}-one", range(100))
    pattern = {"subscribePattern": f"{name}-.*", "kafka.metadata.max.age.ms": 500}
    rows = source(spark.readStream, reference, "", startingOffsets="earliest", **pattern)
    query = job.start(rows, processingTime="200 milliseconds")
    try:
        wait_for(lambda: sum(p["numInputRows"] for p in query.recentProgress) >= 100 or None, query)
        create(reference, admin, f"{name}-two")
        second = produce(reference, f"{name}-two", range(100, 200))
        wait_for(lambda: sum(p["numInputRows"] for p in query.recentProgress) >= 200 or None, query)
    finally:
        query.stop()

    assert job.result(spark) == Summary(first.count + second.count, first.checksum + second.checksum)


@BOTH_WAYS
def test_only_a_consumer_joins_a_group(
    spark: SparkSession, reference: RunningBroker, way: str, topic: str, job: Job, admin: AdminClient
) -> None:
    """Spark's older way of asking for offsets: the driver is a member of a group. It commits nothing there."""
    written = produce(reference, topic, range(100))

    job.run(source(spark.readStream, reference, topic, startingOffsets="earliest", groupIdPrefix=topic))

    assert job.result(spark) == written
    groups = [each.group_id for each in admin.list_consumer_groups().result().valid]
    joined = [group for group in groups if group.startswith(f"{topic}-")]
    assert len(joined) == (way == "consumer")
    for group in joined:
        [committed] = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
        assert committed.result().topic_partitions == []


@COSTLY_BOTH_WAYS
def test_a_stream_of_committed_records_skips_gaps(
    spark: SparkSession, reference: RunningBroker, way: str, topic: str, job: Job
) -> None:
    """In small batches, some with only markers and aborted records; up to the first open transaction."""
    producer = Producer({"bootstrap.servers": reference.bootstrap, "transactional.id": topic})
    producer.init_transactions(60)
    for turn in range(9):
        producer.begin_transaction()
        for number in range(turn * 10, turn * 10 + 10):
            producer.produce(topic, b"value-%d" % number, partition=number % PARTITIONS)
        assert producer.flush(60) == 0
        if turn % 3 == 0:
            producer.commit_transaction(60)
        elif turn < 8:
            producer.abort_transaction(60)
    options = {"startingOffsets": "earliest", "kafka.isolation.level": "read_committed", "maxOffsetsPerTrigger": 30}
    try:
        job.run(source(spark.readStream, reference, topic, **options))
    finally:
        producer.abort_transaction(60)

    committed = [number for turn in (0, 3, 6) for number in range(turn * 10, turn * 10 + 10)]
    assert job.result(spark) == summary(b"value-%d" % number for number in committed)


def test_stream_into_a_topic(spark: SparkSession, reference: RunningBroker, topic: str, tmp_path: Path) -> None:
    """Spark's sink, an idempotent producer, into a missing topic, which is created; with keys and headers."""
    written = produce(reference, topic, range(COUNT), key=b"k", headers=[("h", b"v"), ("null", None)])
    copied = f"{topic}-copy"
    rows = source(spark.readStream, reference, topic, startingOffsets="earliest", includeHeaders="true")

    writer = rows.select("key", "value", "headers").writeStream.format("kafka").option("topic", copied)
    writer = writer.option("kafka.bootstrap.servers", reference.bootstrap)
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(120)

    assert summed(source(spark.read, reference, copied)) == written
    consumer = Consumer({"bootstrap.servers": reference.bootstrap, "group.id": copied, "auto.offset.reset": "earliest"})
    consumer.subscribe([copied])
    [message] = consumer.consume(1, 60)
    consumer.close()
    assert (message.key(), message.headers()) == (b"k", [("h", b"v"), ("null", None)])


def test_batch_into_a_topic(spark: SparkSession, reference: RunningBroker, topic: str) -> None:
    """A batch write, with partitions chosen by Spark."""
    rows = spark.range(COUNT).select(f.concat(f.lit("value-"), f.col("id").cast("string")).alias("value"))
    rows.write.format("kafka").option("kafka.bootstrap.servers", reference.bootstrap).option("topic", topic).save()

    expected = summary(b"value-%d" % number for number in range(COUNT))
    assert summed(source(spark.read, reference, topic)) == expected


JOB = """
import sys
from pyspark.sql import SparkSession
from pybroker.pipeline.session import open_session
from pybroker.pipeline.spec import Kafka, Pipeline
bootstrap, topic, path, checkpoint = sys.argv[1:]
spark = open_session(Pipeline(1, "killed", Kafka(""), {}, {}, ""))
rows = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
rows = rows.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "100").load()
query = rows.writeStream.format("parquet").option("path", path).option("checkpointLocation", checkpoint).start()
batch = -1
while True:
    for progress in query.recentProgress:
        if progress["batchId"] > batch:
            batch = progress["batchId"]
            print(batch, flush=True)
"""


@pytest.mark.parametrize("reference", COSTLY_BROKERS, indirect=True)
def test_killed_job_resumes_from_its_checkpoint(
    spark: SparkSession, reference: RunningBroker, topic: str, tmp_path: Path
) -> None:
    """SIGKILL in the middle; rerun from the checkpoint: every record is in the files exactly once."""
    written = produce(reference, topic, range(COUNT))
    arguments = [reference.bootstrap, topic, str(tmp_path / "rows"), str(tmp_path / "checkpoint")]
    command = [sys.executable, "-c", JOB, *arguments]
    killed = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert killed.stdout is not None
    try:
        for line in killed.stdout:
            if int(line) >= 2:
                break
    finally:
        os.killpg(killed.pid, signal.SIGKILL)  # Python and its JVM
        killed.wait()

    job = Job(tmp_path)
    resumed = job.run(source(spark.readStream, reference, topic, startingOffsets="earliest"))

    assert job.result(spark) == written
    assert 0 < sum(resumed) < COUNT


def wait_for(condition: Any, query: StreamingQuery, timeout_s: float = 60) -> None:
    """Wait until `condition` holds while the query runs."""
    eventually(lambda: query.exception() or condition(), timeout_s=timeout_s)
    assert query.exception() is None
