"""Spark's data sources without a jar: the same rows as Spark's own Kafka source, in batches and streams, and back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pybroker.spark import register
from tests.support.brokers import HOST, RunningBroker
from tests.support.data_client import DataClient
from tests.support.dump_log import LOGS
from tests.support.scale import scaled
from tests.support.spark_sources import EPOCH_MS, Job, fill_topic, opened, sorted_rows

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "spark.md"
COUNT = scaled(200)
TOPIC = "spark-sources"
PARTITIONS = 3


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """Spark with both formats."""
    register(spark)
    return spark


@pytest.fixture(scope="module")
def topic(broker: RunningBroker) -> str:
    """All codecs, headers, nulls, committed and aborted transactions."""
    with DataClient(HOST, broker.port) as client:
        client.create_topic(TOPIC, PARTITIONS)
    fill_topic(broker.bootstrap, TOPIC, PARTITIONS, COUNT)
    return TOPIC


def each(value: object) -> str:
    """Return a value for all partitions, in the form of Spark's options."""
    return json.dumps({TOPIC: {str(partition): value for partition in range(PARTITIONS)}})


@pytest.mark.parametrize(
    "options",
    [
        {"subscribe": TOPIC, "includeHeaders": "true"},
        {"subscribe": TOPIC, "includeHeaders": "true", "kafka.isolation.level": "read_committed", "minPartitions": 7},
        {"subscribePattern": "spark-sou.*", "startingOffsets": each(17), "endingOffsets": each(-1)},
        {
            "assign": json.dumps({TOPIC: [0, 2]}),
            "endingOffsetsByTimestamp": json.dumps({TOPIC: {"0": EPOCH_MS + 50, "2": EPOCH_MS + 10**9}}),
        },
        {"subscribe": TOPIC, "startingTimestamp": EPOCH_MS + 20, "endingTimestamp": EPOCH_MS + 100},
        {"subscribe": TOPIC, "startingOffsets": "earliest", "endingOffsets": each(23)},
    ],
    ids=["all", "committed", "offsets", "assigned", "times", "end"],
)
def test_batch_equals_that_of_sparks_kafka_source(
    session: SparkSession, broker: RunningBroker, topic: str, options: dict[str, Any]
) -> None:
    """Row by row, with the same columns and types."""
    theirs = opened(session.read, "kafka", broker.bootstrap, **options)
    ours = opened(session.read, "pybroker", broker.bootstrap, **options)

    assert ours.schema == theirs.schema
    expected = sorted_rows(theirs)
    assert expected
    assert sorted_rows(ours) == expected
    if "minPartitions" in options:
        assert ours.rdd.getNumPartitions() >= 7


def test_a_directory_and_its_remote_segments_are_one_log(session: SparkSession) -> None:
    """Apache Kafka copied offsets 0 to 519; a task reads a segment."""
    stored = LOGS.parent / "remote" / "aiven-on-4.3.1"
    source = session.read.format("pybroker-log").option("columns", "offset").option("remote", f"file://{stored}")

    both = source.load(str(stored / "log.dirs" / "at-0"))
    alone = source.option("subscribe", "at").load()

    assert both.rdd.getNumPartitions() == 5
    assert sorted(row.offset for row in both.collect()) == list(range(600))
    assert sorted(row.offset for row in alone.collect()) == list(range(520))


def test_directory_equals_the_topic(session: SparkSession, broker: RunningBroker, topic: str) -> None:
    """Read from the files, while the broker runs; with selected columns."""
    path = str(broker.log_dir)
    options = {"subscribe": topic, "kafka.isolation.level": "read_committed", "includeHeaders": "true"}

    rows = session.read.format("pybroker-log").options(**options).load(path)
    chosen = session.read.format("pybroker-log").options(subscribe=topic, columns="offset,partition").load(path)

    assert sorted_rows(rows) == sorted_rows(opened(session.read, "kafka", broker.bootstrap, **options))
    assert chosen.columns == ["offset", "partition"]
    assert chosen.count() == opened(session.read, "kafka", broker.bootstrap, subscribe=topic).count()


def test_a_stream_continues_where_it_stopped(
    session: SparkSession, broker: RunningBroker, topic: str, tmp_path: Path
) -> None:
    """Stopped in the middle, run to the end, and once more after new records: each row once."""
    job = Job(session, broker.bootstrap, topic, tmp_path)
    limit = COUNT
    query = job.start(trigger={"processingTime": "0 seconds"}, maxOffsetsPerTrigger=limit)
    try:
        while not any(progress["numInputRows"] for progress in query.recentProgress):
            assert not query.awaitTermination(0.1)
    finally:
        query.stop()
    before = len(job.rows())
    rest = job.run(maxOffsetsPerTrigger=limit)

    expected = sorted_rows(opened(session.read, "kafka", broker.bootstrap, subscribe=topic))
    assert job.rows() == expected
    assert before > 0
    assert before + sum(rest) == len(expected)
    assert max(rest) <= limit + PARTITIONS

    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(10):
        producer.produce(topic, b"new-%d" % number, timestamp=EPOCH_MS)
    assert producer.flush(60) == 0
    assert sum(job.run()) == 10
    assert job.rows() == sorted_rows(opened(session.read, "kafka", broker.bootstrap, subscribe=topic))
    assert job.run() == []


@pytest.fixture
def small(broker: RunningBroker, name: str) -> Iterator[DataClient]:
    """A client, and a topic called `name`."""
    with DataClient(HOST, broker.port) as client:
        client.create_topic(name)
        yield client


def fill(broker: RunningBroker, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in numbers:
        producer.produce(topic, b"%d" % number)
    assert producer.flush(60) == 0


def test_data_loss_fails_the_query_or_is_skipped(
    session: SparkSession, broker: RunningBroker, small: DataClient, name: str, tmp_path: Path
) -> None:
    """Records that were deleted before they were read, by a batch and by a stopped stream."""
    job = Job(session, broker.bootstrap, name, tmp_path)
    fill(broker, name, range(10))
    assert sum(job.run()) == 10
    fill(broker, name, range(10, 20))
    small.delete_records(name, 0, 15)

    batch = {"subscribe": name, "startingOffsets": json.dumps({name: {"0": 3}})}
    with pytest.raises(PySparkException, match="offset 3 was deleted"):
        opened(session.read, "pybroker", broker.bootstrap, **batch).collect()
    with pytest.raises(PySparkException, match="offset 10 was deleted"):
        job.run()
    left = [b"%d" % number for number in range(15, 20)]
    found = sorted_rows(opened(session.read, "pybroker", broker.bootstrap, failOnDataLoss="false", **batch))
    assert [row["value"] for row in found] == left
    assert sum(job.run(failOnDataLoss="false")) == 5
    assert [row["value"] for row in job.rows()] == [b"%d" % number for number in range(10)] + left


def test_stream_from_the_end_of_a_topic_that_is_written_to(
    session: SparkSession, broker: RunningBroker, small: DataClient, name: str, tmp_path: Path
) -> None:
    """Spark asks several times where to begin; the stream loses nothing from its first position on."""
    job = Job(session, broker.bootstrap, name, tmp_path)
    fill(broker, name, range(100))
    is_over = Event()

    def write() -> None:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
        while not is_over.wait(0.001):
            producer.produce(name, b"more")
            producer.poll(0)
        assert producer.flush(60) == 0

    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(write)
        query = job.start(trigger={"processingTime": "0 seconds"}, startingOffsets="latest")
        try:
            while sum(progress["numInputRows"] for progress in query.recentProgress) < 100:
                assert not query.awaitTermination(0.1)
        finally:
            query.stop()
            is_over.set()
        writing.result(60)

    offsets = [row["offset"] for row in job.rows()]
    assert offsets[0] >= 100
    assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))


def test_rows_are_written(
    session: SparkSession, broker: RunningBroker, topic: str, small: DataClient, name: str, tmp_path: Path
) -> None:
    """A batch with keys and headers into the option's topic, and a stream into the topics of its rows."""
    columns = ["key", "value", "headers"]
    rows = opened(session.read, "kafka", broker.bootstrap, subscribe=topic, includeHeaders="true").select(*columns)
    target = {"kafka.bootstrap.servers": broker.bootstrap, "kafka.compression.type": "lz4"}
    rows.write.format("pybroker").mode("append").options(topic=name, **target).save()

    written = opened(session.read, "kafka", broker.bootstrap, subscribe=name, includeHeaders="true").select(*columns)
    assert sorted(map(repr, written.collect())) == sorted(map(repr, rows.collect()))

    small.create_topic(f"{name}-copy")
    source = opened(session.readStream, "pybroker", broker.bootstrap, subscribe=name, startingOffsets="earliest")
    texts = source.selectExpr("CAST(key AS STRING) AS key", "value", f"'{name}-copy' AS topic")
    writer = texts.writeStream.format("pybroker").options(**target)
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(240)

    copied = [
        [row["key"], row["value"]]
        for row in sorted_rows(opened(session.read, "kafka", broker.bootstrap, subscribe=f"{name}-copy"))
    ]
    assert sorted(map(repr, copied)) == sorted(repr([row["key"], row["value"]]) for row in written.collect())


def test_credentials_are_those_of_sparks_kafka_source(
    session: SparkSession, start_broker: Callable[..., RunningBroker]
) -> None:
    """The same options read the same rows; wrong ones end a query, also a writing one, before any task begins."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    asking = start_broker(
        "ours",
        {
            "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.plaintext.plain.sasl.jaas.config": f'{module} user_alice="secret";',
            "connection.failed.authentication.delay.ms": "10",
        },
    )
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    told = {"bootstrap.servers": asking.bootstrap, "sasl.username": "alice", "sasl.password": "secret"}
    producer = Producer({**login, **told})
    for number in range(5):
        producer.produce("secret-lines", str(number))
    assert producer.flush(60) == 0
    options = {f"kafka.{name}": value for name, value in login.items()}
    options["kafka.sasl.jaas.config"] = f'{module} username="alice" password="secret";'

    theirs = opened(session.read, "kafka", asking.bootstrap, subscribe="secret-lines", **options)
    rows = opened(session.read, "pybroker", asking.bootstrap, subscribe="secret-lines", **options)
    assert len(sorted_rows(rows)) == 5
    assert sorted_rows(rows) == sorted_rows(theirs)
    servers = {"kafka.bootstrap.servers": asking.bootstrap}
    rows.select("value").write.format("pybroker").mode("append").options(
        topic="secret-lines", **servers, **options
    ).save()
    assert opened(session.read, "pybroker", asking.bootstrap, subscribe="secret-lines", **options).count() == 10

    options["kafka.sasl.jaas.config"] = f'{module} username="alice" password="hidden";'
    refused = r"kafka\.sasl\.jaas\.config: .* does not accept alice with this password by PLAIN"
    with pytest.raises(PySparkException, match=refused) as failed:
        opened(session.read, "pybroker", asking.bootstrap, subscribe="secret-lines", **options).count()
    assert "hidden" not in str(failed.value)
    writing = session.range(1).selectExpr("CAST(id AS STRING) AS value").write.format("pybroker").mode("append")
    with pytest.raises(PySparkException, match=refused):
        writing.options(topic="secret-lines", **servers, **options).save()


def test_option_that_there_is_not_is_named(session: SparkSession, broker: RunningBroker) -> None:
    with pytest.raises(PySparkException, match="there is no option 'startingoffset'"):
        opened(session.read, "pybroker", broker.bootstrap, subscribe=TOPIC, startingOffset="earliest").collect()


def test_lines_of_the_page_run(
    session: SparkSession,
    broker: RunningBroker,
    small: DataClient,
    name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """docs/reference/spark.md, with another broker, topic and directories."""
    small.create_topic(f"{name}-copy")
    fill(broker, name, range(3))
    [lines] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for written, here in (
        ("localhost:9092", broker.bootstrap),
        ('"orders', f'"{name}'),
        ("data/orders", f"{broker.log_dir}/{name}"),
        ("lake/", f"{tmp_path}/"),
    ):
        assert written in lines
        lines = lines.replace(written, here)

    exec(lines, {})

    assert capsys.readouterr().out.splitlines()[-1] == "3"
    assert session.read.parquet(f"{tmp_path}/orders").count() == 3
    assert small.values(f"{name}-copy") == [b"0", b"1", b"2"]
