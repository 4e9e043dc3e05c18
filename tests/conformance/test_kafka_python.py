"""kafka-python against the broker: producing, consuming, groups, offsets and administration."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, OffsetSpec, TopicPartition
from kafka.admin import ConfigResource, NewTopic
from kafka.errors import InvalidPartitionsError, TopicAlreadyExistsError, UnknownTopicOrPartitionError

from tests.support.brokers import RunningBroker
from tests.support.kafka_python import know_topics
from tests.support.scale import scaled
from tests.support.settled import settled, wait_for_topic

COUNT = scaled(200)
CODECS = [None, "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture
def admin(reference: RunningBroker) -> Iterator[KafkaAdminClient]:
    """Return an admin client."""
    client = KafkaAdminClient(bootstrap_servers=reference.bootstrap)
    yield client
    client.close()


@pytest.fixture
def topic(reference: RunningBroker, admin: KafkaAdminClient, name: str) -> str:
    """Create a topic of two partitions."""
    admin.create_topics({name: {"num_partitions": 2, "replication_factor": 1}})
    wait_for_topic(reference, name, 2)
    return name


def produce(broker: RunningBroker, topic: str, count: int = COUNT, **settings: Any) -> list[Any]:
    """Send `count` records with keys, headers and timestamps; return their metadata."""
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, **settings)
    futures = [
        producer.send(
            topic, b"value-%d" % i, b"key-%d" % (i % 7), headers=[("n", b"%d" % i)], timestamp_ms=1_700_000_000_000 + i
        )
        for i in range(count)
    ]
    sent = [future.get(timeout=60) for future in futures]
    producer.close()
    return sent


def consumer(broker: RunningBroker, *topics: str, **settings: Any) -> KafkaConsumer:
    made = KafkaConsumer(*topics, bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", **settings)
    know_topics(made, *topics)
    return made


def take(source: KafkaConsumer, count: int, timeout_s: float = 120) -> list[Any]:
    """Poll until `count` records are there."""
    records: list[Any] = []
    deadline = time.monotonic() + timeout_s
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records after {timeout_s} s"
        records += [record for batch in source.poll(timeout_ms=200).values() for record in batch]
    return records


@pytest.mark.parametrize("codec", CODECS)
def test_produced_records_are_consumed(reference: RunningBroker, topic: str, codec: str | None) -> None:
    """Keys, values, headers, timestamps and order, under each codec."""
    sent = produce(reference, topic, compression_type=codec)

    source = consumer(reference, topic)
    records = take(source, COUNT)
    source.close()

    assert sorted(r.value for r in records) == sorted(b"value-%d" % i for i in range(COUNT))
    for record in records:
        number = int(record.value.split(b"-")[1])
        assert (record.key, record.headers) == (b"key-%d" % (number % 7), [("n", b"%d" % number)])
        assert record.timestamp == 1_700_000_000_000 + number
        assert (record.partition, record.offset) == (sent[number].partition, sent[number].offset)


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_acks(reference: RunningBroker, topic: str, acks: int | str) -> None:
    """S10.2: each level of acknowledgement; acks=0 has no answer, but the records are stored."""
    produce(reference, topic, 10, acks=acks, enable_idempotence=False, retries=0)

    source = consumer(reference, topic)
    assert len(take(source, 10)) == 10
    source.close()


def test_a_missing_topic_is_created_on_first_use(reference: RunningBroker, name: str) -> None:
    """S2.6: auto.create.topics.enable."""
    produce(reference, name, 3)

    source = consumer(reference, name)
    assert len(take(source, 3)) == 3
    source.close()


def test_a_group_continues_at_its_commit(reference: RunningBroker, topic: str) -> None:
    """S18.6: a second member of the group begins at the committed offsets."""
    produce(reference, topic)
    first = consumer(reference, topic, group_id=topic, enable_auto_commit=False, max_poll_records=COUNT // 2)
    taken = take(first, COUNT // 2)
    first.commit()
    first.close(autocommit=False)

    second = consumer(reference, topic, group_id=topic, enable_auto_commit=False)
    rest = take(second, COUNT - len(taken))
    second.close()

    assert sorted(r.value for r in taken + rest) == sorted(b"value-%d" % i for i in range(COUNT))


def test_committed_offsets_carry_metadata(reference: RunningBroker, topic: str) -> None:
    """S18.6: commit given offsets with metadata; another consumer reads them."""
    produce(reference, topic, 10)
    partition = TopicPartition(topic, 0)
    writer = consumer(reference, group_id=topic, enable_auto_commit=False)
    writer.assign([partition])
    writer.commit({partition: OffsetAndMetadata(3, "a note", -1)})
    writer.close()

    reader = consumer(reference, group_id=topic, enable_auto_commit=False)
    kept = reader.committed(partition, metadata=True)
    reader.close()

    assert (kept.offset, kept.metadata) == (3, "a note")


def test_seek_and_offsets(reference: RunningBroker, topic: str) -> None:
    """S11.4: seek to n: the next record has offset n; beginning, end and times of a partition."""
    produce(reference, topic)
    partition = TopicPartition(topic, 1)
    source = consumer(reference)
    source.assign([partition])
    end = source.end_offsets([partition])[partition]

    source.seek(partition, end // 2)
    record = take(source, 1)[0]
    found = source.offsets_for_times({partition: record.timestamp})[partition]
    beyond = source.offsets_for_times({partition: 1_700_000_000_000 + 2 * COUNT})[partition]
    beginning = source.beginning_offsets([partition])[partition]
    source.close()

    assert (record.offset, beginning) == (end // 2, 0)
    assert (found.offset, found.timestamp) == (record.offset, record.timestamp)
    assert beyond is None


def test_long_poll_answers_when_a_record_comes(reference: RunningBroker, topic: str) -> None:
    """S11.8: a fetch waits for data, and ends as soon as there is some."""
    source = consumer(reference, fetch_max_wait_ms=100_000, request_timeout_ms=200_000, fetch_min_bytes=1)
    source.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
    assert source.poll(timeout_ms=500) == {}

    began = time.monotonic()
    produce(reference, topic, 1)
    take(source, 1)
    source.close()

    assert time.monotonic() - began < 90


def test_topics_are_created_described_and_deleted(reference: RunningBroker, admin: KafkaAdminClient, name: str) -> None:
    """CreateTopics, Metadata, CreatePartitions, DeleteTopics and their errors."""
    admin.create_topics([NewTopic(name, num_partitions=3, replication_factor=1)])
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([NewTopic(name, num_partitions=3, replication_factor=1)])
    wait_for_topic(reference, name, 3)
    assert name in admin.list_topics()
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions({name: 2})
    admin.create_partitions({name: 5})
    wait_for_topic(reference, name, 5)

    described = admin.describe_topics([name])[0]
    assert len(described["partitions"]) == 5

    admin.delete_topics([name])
    settled(reference, lambda: is_gone(admin, name))
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([name])


def is_gone(admin: KafkaAdminClient, topic: str) -> None:
    assert topic not in admin.list_topics()


def test_topic_configs_are_altered(reference: RunningBroker, admin: KafkaAdminClient, topic: str) -> None:
    """IncrementalAlterConfigs and DescribeConfigs."""
    admin.alter_configs([ConfigResource("TOPIC", topic, {"retention.ms": "12345"})])

    def is_described() -> None:
        described = admin.describe_configs([ConfigResource("TOPIC", topic)])
        assert described["topic"][topic]["retention.ms"]["value"] == "12345"

    settled(reference, is_described)


def test_records_are_deleted(reference: RunningBroker, admin: KafkaAdminClient, topic: str) -> None:
    """DeleteRecords moves the log start offset; older offsets are out of range."""
    partition = TopicPartition(topic, produce(reference, topic, 10, linger_ms=0)[0].partition)
    before = admin.list_partition_offsets({partition: OffsetSpec.LATEST})[partition].offset

    admin.delete_records({partition: before})

    assert admin.list_partition_offsets({partition: OffsetSpec.EARLIEST})[partition].offset == before


def test_groups_are_listed_described_and_deleted(reference: RunningBroker, admin: KafkaAdminClient, topic: str) -> None:
    """ListGroups, DescribeGroups, OffsetFetch, OffsetDelete, DeleteGroups."""
    produce(reference, topic, 10)
    member = consumer(reference, topic, group_id=topic, client_id="me")
    take(member, 10)

    alive = admin.describe_groups([topic])[topic]
    assert alive["group_state"] == "Stable"
    assert [m["client_id"] for m in alive["members"]] == ["me"]
    member.close()

    assert topic in {group["group_id"] for group in admin.list_groups()}
    offsets = admin.list_group_offsets([topic])[topic]
    assert sum(kept.offset for kept in offsets.values()) == 10
    assert admin.delete_groups([topic]) == {topic: "OK"}
    assert admin.delete_groups([topic]) == {topic: "GroupIdNotFoundError"}


def test_cluster_is_described(reference: RunningBroker, admin: KafkaAdminClient) -> None:
    """DescribeCluster: one broker, at the address that clients used."""
    described = admin.describe_cluster()

    assert [(b["broker_id"], b["host"], b["port"]) for b in described["brokers"]] == [(1, "127.0.0.1", reference.port)]
    assert described["controller_id"] == 1


def test_log_directories_are_described(reference: RunningBroker, admin: KafkaAdminClient, topic: str) -> None:
    """DescribeLogDirs: the directory and the partitions in it."""
    produce(reference, topic, 10)

    described = str(admin.describe_log_dirs())

    assert str(reference.log_dir) in described
    assert topic in described
