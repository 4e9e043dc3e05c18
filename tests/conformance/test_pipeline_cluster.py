"""A pipeline whose three brokers are killed in turn: streams go on, and each row is in the files once."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from tests.conformance.replaced_brokers import IDS, ReplacedBrokers
from tests.conformance.test_pipeline_restart import rows
from tests.support.pipelines import Scenario, Supervised
from tests.support.specifications import document, loaded

#: records of a round
COUNT = 200
#: Spark's admin client asks a dead leader for offsets as long as this. With its default of 60 s a round takes 65 s, on
#: brokers of both kinds.
TIMEOUTS = {"default.api.timeout.ms": "15000", "request.timeout.ms": "15000"}


def write(brokers: ReplacedBrokers, part: int) -> None:
    """Write a round's numbers; all are acknowledged."""
    producer = Producer({"bootstrap.servers": brokers.bootstrap, "enable.idempotence": True})
    failed: list[object] = []
    for number in range(part * COUNT, (part + 1) * COUNT):
        producer.produce("events", str(number), on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(120) == 0
    assert failed == []


@pytest.mark.full_size
def test_brokers_are_killed_in_turn(spark: SparkSession, tmp_path: Path) -> None:
    """Each broker is killed while batches run, and comes back before the next one is."""
    streams = {
        "archive": {"format": "parquet", "path": str(tmp_path / "lake")},
        "copy": {"format": "kafka", "topic": "copied"},
    }
    with ReplacedBrokers(tmp_path / "brokers", dict.fromkeys(IDS, "ours")) as brokers:
        admin = AdminClient({"bootstrap.servers": brokers.bootstrap})
        for created in admin.create_topics([NewTopic(topic, 3, 3) for topic in ("events", "copied")]).values():
            created.result(60)
        pipeline = loaded(
            tmp_path,
            document(
                kafka={"bootstrap": brokers.bootstrap, "options": TIMEOUTS},
                checkpoint_root=str(tmp_path / "state"),
                sources={"s": {"topics": ["events"]}},
                streams={name: {"from": "s", "trigger": "200ms", "sink": sink} for name, sink in streams.items()},
                restart={"attempts": 60, "back_off": "200ms", "back_off_max": "1s"},
            ),
        )
        write(brokers, 0)
        running = Supervised(spark, pipeline)

        def scenario() -> Scenario:
            yield lambda: running.records("archive") == running.records("copy") == COUNT
            for number in IDS:
                brokers.brokers[number].kill()
                write(brokers, number)
                seen = (number + 1) * COUNT
                yield lambda seen=seen: running.records("archive") == running.records("copy") == seen  # type: ignore[misc]
                brokers.brokers[number].start()
                brokers.wait_for_replicas()

        assert running.run(scenario()) is None
        assert rows(spark, tmp_path / "lake") == list(range((len(IDS) + 1) * COUNT))
