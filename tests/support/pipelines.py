"""Run pipelines in the test's own Spark, to their end or supervised, and write and read their records."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from confluent_kafka import Consumer, Message, Producer
from pyspark.sql import SparkSession

from pybroker.pipeline.plan import plan
from pybroker.pipeline.progress import Batch, Reporter
from pybroker.pipeline.spec import Pipeline
from pybroker.pipeline.supervisor import Supervisor, Watched
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


PATIENCE_S = 240

#: Acts, and yields conditions to wait for; at its end the pipeline is stopped.
Scenario = Iterator[Callable[[], object]]


class Supervised:
    """A pipeline, and the reports of its supervisor."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline, metrics: Path | None = None) -> None:
        self._out = io.StringIO()
        self._supervisor = Supervisor(Reporter(metrics, self._out), pipeline.restart, sleep=self._sleep)
        self._watched = [Watched(one.query.name, one.start) for one in plan(spark, pipeline)]
        self._scenario: Scenario = iter(())
        self._awaited: Callable[[], object] = lambda: True
        self._deadline = time.monotonic() + PATIENCE_S

    @property
    def told(self) -> str:
        return self._out.getvalue()

    def run(self, scenario: Scenario) -> str | None:
        """Run until the scenario ends, or a query fails for good: return why."""
        self._scenario = scenario
        return self._supervisor.run(self._watched)

    def records(self, query: str) -> int:
        """Return how many records the finished batches had."""
        return sum(map(int, re.findall(rf"^{query}: batch \d+: (\d+) records", self.told, re.MULTILINE)))

    def waits(self, query: str) -> list[float]:
        """Return the seconds before each restart."""
        return list(map(float, re.findall(rf"^{query}: failed, restarts in (\S+) s: ", self.told, re.MULTILINE)))

    def _sleep(self, seconds: float) -> None:
        """Run the scenario while the supervisor sleeps between two checks."""
        time.sleep(seconds)
        assert time.monotonic() < self._deadline, self.told
        if self._awaited():
            try:
                self._awaited = next(self._scenario)
            except StopIteration:
                self._supervisor.stop()
