"""One data directory, two brokers: stopped under one, started under the other, and back."""

from __future__ import annotations

import shutil
from pathlib import Path

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic

from tests.support.brokers import KafkaBroker, OurBroker, RunningBroker
from tests.support.java import JavaRunner
from tests.support.tools import MAIN_CLASSES

GROUP = "exchange"


def moved(kind: type[RunningBroker], broker: RunningBroker, directory: Path) -> RunningBroker:
    """Start a broker of the other kind on a copy of a stopped one's data."""
    assert broker.stop() in (0, 143)
    shutil.copytree(broker.log_dir, directory / "logs")
    return kind(directory)


def make_topic(broker: RunningBroker, name: str, partitions: int, configs: dict[str, str]) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics([NewTopic(name, partitions, 1, topic_configs=configs)])
    admin.close()


def write(broker: RunningBroker, topic: str, values: range) -> None:
    """Write idempotently to partition 0."""
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, enable_idempotence=True, acks="all")
    for value in values:
        producer.send(topic, str(value).encode(), partition=0)
    producer.flush()
    producer.close()


def read(broker: RunningBroker, topic: str, count: int) -> list[int]:
    """Return the first records of partition 0, and commit their end for the group."""
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap, group_id=GROUP, enable_auto_commit=False, consumer_timeout_ms=10_000
    )
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    values: list[int] = []
    while len(values) < count:
        for records in consumer.poll(timeout_ms=10_000).values():
            values.extend(int(record.value) for record in records)
    consumer.commit()
    consumer.close()
    return values


def committed(broker: RunningBroker, topic: str) -> int | None:
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=GROUP, enable_auto_commit=False)
    offset = consumer.committed(TopicPartition(topic, 0))
    consumer.close()
    return offset


def described(broker: RunningBroker) -> dict[str, tuple[str, int]]:
    """Return ids and partition counts of the topics that clients created."""
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    topics = admin.describe_topics()
    admin.close()
    return {t["name"]: (t["topic_id"], len(t["partitions"])) for t in topics if not t["is_internal"]}


def retention_ms(broker: RunningBroker, topic: str) -> str:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    configs = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    admin.close()
    return str(configs["topic"][topic]["retention.ms"]["value"])


def dumped_metadata(java: JavaRunner, broker: RunningBroker) -> str:
    """Return kafka-dump-log's output for the metadata log."""
    segment = broker.log_dir / "__cluster_metadata-0/00000000000000000000.log"
    arguments = ("--cluster-metadata-decoder", "--deep-iteration", "--files", str(segment))
    done = java.run(MAIN_CLASSES["kafka-dump-log"], *arguments)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def test_directory_goes_to_kafka_and_back(tmp_path: Path, java: JavaRunner):
    """Topics with ids and configurations, records and committed offsets stay; kafka-dump-log reads the metadata."""
    first = OurBroker(tmp_path / "1-ours")
    make_topic(first, "from-us", 2, {"retention.ms": "86400000"})
    write(first, "from-us", range(100))
    assert read(first, "from-us", 100) == list(range(100))

    kafka = moved(KafkaBroker, first, tmp_path / "2-kafka")
    topics = described(kafka)
    assert topics["from-us"][1] == 2
    assert retention_ms(kafka, "from-us") == "86400000"
    assert committed(kafka, "from-us") == 100
    write(kafka, "from-us", range(100, 200))
    make_topic(kafka, "from-kafka", 3, {})
    write(kafka, "from-kafka", range(50))
    topics = described(kafka)

    second = moved(OurBroker, kafka, tmp_path / "3-ours")
    assert described(second) == topics
    assert retention_ms(second, "from-us") == "86400000"
    assert committed(second, "from-us") == 100
    assert read(second, "from-us", 200) == list(range(200))
    assert read(second, "from-kafka", 50) == list(range(50))
    write(second, "from-kafka", range(50, 60))
    assert second.stop() == 0

    output = dumped_metadata(java, second)
    assert "isvalid: false" not in output
    assert "Unable to decode" not in output
    assert output.count('"type":"REGISTER_BROKER_RECORD"') == 3
    assert not list((tmp_path / "3-ours/logs").glob("*-stray"))
