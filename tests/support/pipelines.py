"""Run pipelines to their end in the test's own Spark, and write and read their records."""

from __future__ import annotations

from confluent_kafka import Consumer, Message, Producer
from pyspark.sql import SparkSession

from pybroker.pipeline.plan import plan
from pybroker.pipeline.progress import Batch
from pybroker.pipeline.spec import Pipeline
from tests.support.brokers import RunningBroker


def produce(broker: RunningBroker, topic: str, *values: bytes | None) -> None:
    """Write records of these values, with a key and a header."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for value in values:
        producer.produce(topic, value, key=b"k", headers=[("h", b"v")])
    assert producer.flush(60) == 0


def run(spark: SparkSession, pipeline: Pipeline) -> dict[str, int]:
    """Run to the end; return how many rows of each stream came too late."""
    late = {}
    for name, query in [(one.query.name, one.start(once=True)) for one in plan(spark, pipeline)]:
        assert query.awaitTermination(300)
        assert query.exception() is None
        late[name] = sum(Batch.of(name, report).late for report in query.recentProgress)
    return late


def read(broker: RunningBroker, topic: str, count: int) -> list[Message]:
    """Read a topic's first `count` records, or all if there are fewer."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        return consumer.consume(count, 60)
    finally:
        consumer.close()
