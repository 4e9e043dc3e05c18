"""Rows of Spark's own Kafka source and of ours: topics with all kinds of records, and a stream into files.

`python -m tests.support.spark_sources BOOTSTRAP TOPIC DIRECTORY MAX_OFFSETS_PER_TRIGGER` runs an endless stream, for
tests that kill it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pybroker.pipeline.session import start_session
from pybroker.spark import register
from tests.support.scale import COSTLY_BROKERS, SCALE

EPOCH_MS = 1_700_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def fill_topic(bootstrap: str, topic: str, partitions: int, count: int) -> None:
    """Write all codecs, `count` records each; headers, nulls, committed and aborted transactions.

    The batches fit into small segments.
    """
    failed: list[object] = []

    def delivered(error: object, _: object) -> None:
        failed.extend([error] if error else [])

    for codec in CODECS:
        settings = {"compression.type": codec, "linger.ms": 50, "batch.size": 2000}
        producer = Producer({"bootstrap.servers": bootstrap, **settings})
        for number in range(count):
            producer.produce(
                topic,
                value=f"{codec}-{number}" if number % 11 else None,
                key=str(number) if number % 7 else None,
                partition=number % partitions,
                timestamp=EPOCH_MS + number,
                headers=[("name", codec.encode()), ("null", None)] if number % 2 else None,
                on_delivery=delivered,
            )
        assert (producer.flush(60), failed) == (0, [])
    transactional = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    transactional.init_transactions(30)
    for number in range(4):
        transactional.begin_transaction()
        for partition in range(partitions):
            transactional.produce(topic, f"transaction-{number}", partition=partition, timestamp=EPOCH_MS + count)
        if number % 2:
            transactional.commit_transaction(30)
        else:
            transactional.flush(30)
            transactional.abort_transaction(30)


def opened(reader: Any, kind: str, bootstrap: str, **options: object) -> DataFrame:
    """Open a source of topics, of `spark.read` or `spark.readStream`."""
    rows: DataFrame = reader.format(kind).options(**{"kafka.bootstrap.servers": bootstrap, **options}).load()
    return rows


def sorted_rows(rows: DataFrame) -> list[Row]:
    return sorted(rows.collect(), key=lambda row: (row["topic"], row["partition"], row["offset"]))


class Job:
    """A stream into Parquet files, which can be run again from its checkpoint."""

    def __init__(
        self, session: SparkSession, bootstrap: str, topic: str, directory: Path, kind: str = "pybroker"
    ) -> None:
        self._session = session
        self._bootstrap = bootstrap
        self._topic = topic
        self._directory = directory
        self._kind = kind

    def start(self, *, trigger: dict[str, Any], **options: object) -> StreamingQuery:
        usual: dict[str, object] = {"subscribe": self._topic, "startingOffsets": "earliest"}
        rows = opened(self._session.readStream, self._kind, self._bootstrap, **{**usual, **options})
        writer = rows.writeStream.option("checkpointLocation", str(self._directory / "checkpoint"))
        return writer.format("parquet").option("path", str(self._directory / "rows")).trigger(**trigger).start()

    def run(self, **options: object) -> list[int]:
        """Run until all present records are read; return how many records each batch had."""
        query = self.start(trigger={"availableNow": True}, **options)
        assert query.awaitTermination(240)
        return [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]]

    def planned(self) -> int:
        """Return how many batches the checkpoint has, done or not."""
        return sum(path.name.isdigit() for path in self._directory.glob("checkpoint/offsets/*"))

    def rows(self) -> list[Row]:
        return sorted_rows(self._session.read.parquet(str(self._directory / "rows")))


#: selects the way: true (consumer) or false
KEY = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
WAYS = ("admin", "consumer")


def _cases(brokers: list[str]) -> list[tuple[str, str]]:
    """Return brokers and ways; at the small sizes a consumer runs only against ours."""
    cases = [(broker, way) for broker in brokers for way in WAYS]
    return [case for case in cases if SCALE > 1 or case != ("kafka", "consumer")]


#: for tests with the fixtures `reference` and `way`
BOTH_WAYS = pytest.mark.parametrize(("reference", "way"), _cases(["ours", "kafka"]), indirect=True)
COSTLY_BOTH_WAYS = pytest.mark.parametrize(("reference", "way"), _cases(COSTLY_BROKERS), indirect=True)


def main(bootstrap: str, topic: str, directory: str, most_offsets: str) -> None:
    """Run until the stream fails."""
    session = start_session("killed", "local[1]", {"spark.sql.warehouse.dir": f"{directory}/warehouse"})
    register(session)
    job = Job(session, bootstrap, topic, Path(directory))
    job.start(trigger={"processingTime": "0 seconds"}, maxOffsetsPerTrigger=most_offsets).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
