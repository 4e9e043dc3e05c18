"""Retention, queries of Spark and archives together: held data is not lost, and other losses are announced."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import SparkSession

from pybroker.archive.archiving import archive_ranges
from pybroker.archive.errors import LogChanged
from pybroker.archive.inputs import BrokerInput
from pybroker.archive.jobs import write_ranges
from pybroker.archive.parquet import count_rows
from pybroker.archive.planning import wanted_ranges
from pybroker.archive.store import Archive
from pybroker.spark import register
from pybroker.testing import Broker
from tests.support.brokers import HOST
from tests.support.data_client import DataClient
from tests.support.eventually import eventually
from tests.support.ports import free_port

SEGMENTS = {"internal.segment.bytes": 2000, "retention.ms": 36_000_000}
COUNT = 100


class Stage:
    """A broker that follows the queries in `state`, with time that a test advances; Spark."""

    def __init__(self, broker: Broker, spark: SparkSession, directory: Path, metrics_port: int) -> None:
        self.broker = broker
        self._spark = spark
        self._directory = directory
        self._url = f"http://{HOST}:{metrics_port}/queries"

    def add_partition(self, topic: str) -> None:
        """Add a second partition."""
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap_servers})
        admin.create_partitions([NewPartitions(topic, 2)])[topic].result()

    def produce(self, *topics: str, partition: int = 0) -> None:
        """Write the same number of records again into each, with the broker's time."""
        now_ms = round(self.broker.move_time_on(seconds=1).timestamp() * 1000)
        producer = Producer({"bootstrap.servers": self.broker.bootstrap_servers, "batch.num.messages": 5})
        errors: list[object] = []
        for topic in topics:
            for number in range(COUNT):
                producer.produce(
                    *(topic, f"{number:0100}"),
                    partition=partition,
                    timestamp=now_ms,
                    on_delivery=lambda error, _: errors.append(error),
                )
            assert producer.flush(60) == 0
        assert set(errors) == {None}

    def run(self, query: str, kind: str, topic: str, *, on_loss: str = "fail") -> str | None:
        """Read all present records from the query's position; return the error, if it failed."""
        options = {
            "kafka.bootstrap.servers": self.broker.bootstrap_servers,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "failOnDataLoss": str(on_loss == "fail").lower(),
        }
        rows = self._spark.readStream.format(kind).options(**options).load()
        writer = rows.select("offset").writeStream.format("parquet").option("path", str(self._directory / query))
        writer = writer.option("checkpointLocation", str(self._directory / "state" / query))
        started = writer.trigger(availableNow=True).start()
        eventually(lambda: not started.isActive, timeout_s=240)
        failure = started.exception()
        return None if failure is None else str(failure)

    def archive(self, *topics: str) -> None:
        """Archive the new records."""
        source = BrokerInput({"bootstrap.servers": self.broker.bootstrap_servers, "isolation.level": "read_committed"})
        with Archive(self._directory / "lake", writing=True) as archive:
            plan = wanted_ranges(source.ends(topics), archive.manifest.ends(), skip_lost=False)
            archive_ranges(archive, plan.ranges, write_ranges(lambda: self._spark, source), count_rows)

    def retain_until(self, is_done: Callable[[], bool]) -> None:
        """Run retention until the broker knows the archive, and `is_done`."""

        def retain() -> bool:
            self.broker.run_retention()
            return is_done()

        eventually(retain, lambda: self.broker.log, interval_s=0.1)

    def offsets(self, query: str) -> list[int]:
        """Return the offsets that a query has written."""
        written = self._spark.read.parquet(str(self._directory / query))
        return sorted(row.offset for row in written.collect())

    def wait_for(self, offsets: dict[str, int]) -> None:
        """Wait until the broker knows these positions of queries."""

        def known() -> dict[str, int]:
            with urllib.request.urlopen(self._url, timeout=60) as answer:
                found = json.loads(answer.read())["queries"]
            return {each["query"]: each["partitions"][0]["offset"] for each in found if each["partitions"]}

        eventually(known, equal_to=offsets)

    def start_of(self, topic: str, partition: int = 0) -> int:
        """Return a partition's first offset."""
        host, _, port = self.broker.bootstrap_servers.rpartition(":")
        with DataClient(host, int(port)) as client:
            return client.bounds(topic, partition)[0]


@pytest.fixture
def stage(spark: SparkSession, tmp_path: Path) -> Iterator[Stage]:
    """Return a stage with a topic that holds, and one that does not."""
    register(spark)
    port = free_port()
    (tmp_path / "state").mkdir()
    config = {
        "metrics.listeners": f"http://{HOST}:{port}",
        "pybroker.archives": tmp_path / "lake",
        "pybroker.spark.checkpoints": tmp_path / "state",
        "pybroker.spark.checkpoints.interval.ms": 100,
        "log.retention.check.interval.ms": 1_000,
    }
    with Broker(config, directory=tmp_path / "broker") as broker:
        broker.create_topic("held", config={**SEGMENTS, "retention.hold.max.bytes": 10 << 20})
        broker.create_topic("let-go", config=SEGMENTS)
        yield Stage(broker, spark, tmp_path, port)


@pytest.mark.parametrize("kind", ["kafka", "pybroker"])
def test_a_query_with_a_hold_loses_no_record(stage: Stage, kind: str) -> None:
    """Although all its unread records have expired; the other query fails, with warnings before and after."""
    stage.produce("held", "let-go")
    for topic in ("held", "let-go"):
        assert stage.run(f"of-{topic}", kind, topic) is None
    stage.produce("held", "let-go")
    stage.wait_for({"of-held": COUNT, "of-let-go": COUNT})

    stage.broker.move_time_on(hours=9, minutes=30)
    stage.broker.run_retention()
    assert "Retention of let-go-0 will soon remove unread records: the query of-let-go has" in stage.broker.log
    assert (stage.start_of("held"), stage.start_of("let-go")) == (0, 0)

    stage.broker.move_time_on(days=8)
    stage.broker.run_retention()
    assert 0 < stage.start_of("held") <= COUNT
    assert stage.start_of("let-go") == 2 * COUNT
    assert f"Retention of held-0 is on hold: the query of-held has read it up to offset {COUNT}; " in stage.broker.log
    gone = f"the query of-let-go has read it up to offset {COUNT}; the log begins at {2 * COUNT}"
    assert f"Retention of let-go-0 has removed unread records: {gone}" in stage.broker.log

    assert stage.run("of-held", kind, "held") is None
    assert stage.offsets("of-held") == list(range(2 * COUNT))
    assert stage.run("of-let-go", kind, "let-go") is not None

    stage.wait_for({"of-held": 2 * COUNT, "of-let-go": COUNT})
    stage.broker.run_retention()
    assert stage.start_of("held") == 2 * COUNT

    stage.produce("let-go")
    assert stage.run("of-let-go", kind, "let-go", on_loss="skip") is None
    assert stage.offsets("of-let-go") == [*range(COUNT), *range(2 * COUNT, 3 * COUNT)]


def test_a_partition_added_while_a_query_is_down_is_held(stage: Stage) -> None:
    """The whole partition, though no batch of the query names it; the query then reads it from its beginning."""
    stage.produce("held")
    assert stage.run("of-held", "kafka", "held") is None
    stage.wait_for({"of-held": COUNT})
    stage.add_partition("held")
    stage.produce("held", partition=1)
    stage.broker.move_time_on(days=8)
    stage.broker.run_retention()

    assert (stage.start_of("held"), stage.start_of("held", 1)) == (COUNT, 0)
    assert "Retention of held-1 is on hold: the query of-held has read it up to offset 0; " in stage.broker.log
    assert stage.run("of-held", "kafka", "held") is None
    assert stage.offsets("of-held") == sorted([*range(COUNT), *range(COUNT)])


def test_an_archive_with_a_hold_gets_all_records(stage: Stage, tmp_path: Path) -> None:
    """Records stay until they are archived, and no longer; the other topic loses them, with a warning."""
    # an empty folder may be an unmounted volume: everything would be held
    (tmp_path / "state" / "no-checkpoint").mkdir()
    stage.produce("held", "let-go")
    stage.archive("held", "let-go")
    stage.produce("held", "let-go")
    stage.broker.move_time_on(hours=9, minutes=30)
    soon = "Retention of let-go-0 will soon remove unread records: the archive lake has read it up to offset"
    stage.retain_until(lambda: f"{soon} {COUNT}" in stage.broker.log)

    stage.broker.move_time_on(days=8)
    stage.broker.run_retention()
    assert 0 < stage.start_of("held") <= COUNT
    assert stage.start_of("let-go") == 2 * COUNT
    with pytest.raises(LogChanged, match="the records between were deleted"):
        stage.archive("let-go")
    stage.archive("held")
    stage.retain_until(lambda: stage.start_of("held") == 2 * COUNT)
    assert stage.offsets("lake/topic=held") == list(range(2 * COUNT))
