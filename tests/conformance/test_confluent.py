"""confluent-kafka (librdkafka) against the broker: producing, consuming, groups, administration."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from protocol.records.batch import entry_at
from tests.support.brokers import HOST, RunningBroker
from tests.support.data_client import DataClient
from tests.support.scale import scaled
from tests.support.settled import settled, wait_for_topic

COUNT = scaled(500)
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture
def admin(reference: RunningBroker) -> AdminClient:
    """Return an admin client."""
    return AdminClient({"bootstrap.servers": reference.bootstrap})


@pytest.fixture
def topic(reference: RunningBroker, admin: AdminClient, name: str) -> str:
    """Create a topic of two partitions."""
    admin.create_topics([NewTopic(name, 2, 1)])[name].result()
    wait_for_topic(reference, name, 2)
    return name


def produce(broker: RunningBroker, topic: str, count: int = COUNT, **settings: Any) -> list[Message]:
    """Send `count` records; return the arguments of the delivery callbacks, in the order of sending."""
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, **{k.replace("_", "."): v for k, v in settings.items()}}
    )
    delivered: dict[int, Message] = {}

    def on_delivery(number: int, error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        delivered[number] = message

    for i in range(count):
        callback = lambda error, message, i=i: on_delivery(i, error, message)  # noqa: E731
        producer.produce(topic, b"value-%d" % i, b"key-%d" % (i % 7), headers=[("n", b"%d" % i)], on_delivery=callback)
        producer.poll(0)
    deadline = time.monotonic() + 90
    while len(delivered) < count:  # a flush would send batches before they are full
        assert time.monotonic() < deadline
        producer.poll(0.1)
    return [delivered[i] for i in range(count)]


def consumer(broker: RunningBroker, group: str, **settings: Any) -> Consumer:
    given = {key.replace("_", "."): value for key, value in settings.items()}
    return Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest", **given}
    )


def take(source: Consumer, count: int, timeout_s: float = 90) -> list[Message]:
    """Consume until `count` records are there."""
    messages: list[Message] = []
    deadline = time.monotonic() + timeout_s
    while len(messages) < count:
        assert time.monotonic() < deadline, f"{len(messages)} of {count} records after {timeout_s} s"
        for message in source.consume(count - len(messages), 0.2):
            assert message.error() is None, message.error()
            messages.append(message)
    return messages


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("codec", CODECS)
def test_produced_records_are_consumed(reference: RunningBroker, topic: str, codec: str, idempotent: bool) -> None:
    """Keys, values, headers, offsets; each codec; with and without idempotence."""
    sent = produce(reference, topic, compression_type=codec, enable_idempotence=idempotent)

    source = consumer(reference, topic)
    source.subscribe([topic])
    messages = take(source, COUNT)
    source.close()

    for message in messages:
        number = int(message.value().split(b"-")[1])
        assert (message.key(), message.headers()) == (b"key-%d" % (number % 7), [("n", b"%d" % number)])
        assert (message.partition(), message.offset()) == (sent[number].partition(), sent[number].offset())
    assert len({message.value() for message in messages}) == COUNT


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks(reference: RunningBroker, topic: str, acks: str) -> None:
    """S10.2: each level of acknowledgement."""
    produce(reference, topic, 10, acks=acks)

    source = consumer(reference, topic)
    source.subscribe([topic])
    assert len({message.value() for message in take(source, 10)}) == 10
    source.close()


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_members_share_partitions_under_each_assignor(reference: RunningBroker, topic: str, strategy: str) -> None:
    """S18.1: three members, two partitions: disjoint, complete, and one is idle."""
    settings = {"partition_assignment_strategy": strategy, "session_timeout_ms": 6000, "heartbeat_interval_ms": 200}
    members = [consumer(reference, topic, **settings) for _ in range(3)]
    for member in members:
        member.subscribe([topic])
    deadline = time.monotonic() + 60
    shares: list[int] = []
    while sorted(shares) != [0, 1, 1]:
        assert time.monotonic() < deadline, shares
        for member in members:
            member.poll(0.05)
        owned = [{(p.topic, p.partition) for p in member.assignment()} for member in members]
        shares = [len(partitions) for partitions in owned] if len(set.union(*owned)) == 2 else []
    for member in members:
        member.close()


def test_the_next_member_continues_at_the_commit(reference: RunningBroker, topic: str) -> None:
    """S18.6: commit of one message, synchronously; its metadata too."""
    produce(reference, topic, 10, enable_idempotence=False)
    partition = TopicPartition(topic, 0)
    writer = consumer(reference, topic, enable_auto_commit=False)
    writer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    first = take(writer, 1)[0]
    writer.commit(offsets=[TopicPartition(topic, 0, first.offset() + 1, "a note")], asynchronous=False)
    writer.close()

    reader = consumer(reference, topic, enable_auto_commit=False)
    [kept] = reader.committed([partition], timeout=60)
    reader.close()

    assert (kept.offset, kept.metadata) == (1, "a note")


def test_watermarks_times_and_seek(reference: RunningBroker, topic: str) -> None:
    """S11.4: low and high watermark, the offset for a time, and a seek."""
    sent = [message for message in produce(reference, topic) if message.partition() == 0]
    source = consumer(reference, topic)
    source.assign([TopicPartition(topic, 0, len(sent) // 2)])

    assert take(source, 1)[0].offset() == len(sent) // 2
    source.seek(TopicPartition(topic, 0, 1))
    assert take(source, 1)[0].offset() == 1
    assert source.get_watermark_offsets(TopicPartition(topic, 0), timeout=60) == (0, len(sent))
    [found] = source.offsets_for_times([TopicPartition(topic, 0, sent[-1].timestamp()[1] + 1)], timeout=60)
    assert found.offset == -1
    source.close()


@pytest.fixture
def consumed(reference: RunningBroker, topic: str) -> str:
    """Return a topic that a group of its name has read and committed."""
    produce(reference, topic, 10)
    source = consumer(reference, topic)
    source.subscribe([topic])
    take(source, 10)
    source.commit(asynchronous=False)
    source.close()
    return topic


def test_groups_are_administrated(admin: AdminClient, consumed: str) -> None:
    """ListGroups, DescribeGroups, OffsetFetch, alter offsets, DeleteGroups."""
    group = consumed
    assert group in {listed.group_id for listed in admin.list_consumer_groups().result().valid}
    described = admin.describe_consumer_groups([group])[group].result()
    assert described.state.name == "EMPTY"

    request = ConsumerGroupTopicPartitions(group, [TopicPartition(consumed, 0, 1)])
    admin.alter_consumer_group_offsets([request])[group].result()
    listed = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result()
    assert {p.partition: p.offset for p in listed.topic_partitions}[0] == 1

    admin.delete_consumer_groups([group])[group].result()
    with pytest.raises(KafkaException, match="GROUP_ID_NOT_FOUND"):
        admin.delete_consumer_groups([group])[group].result()


def test_topics_are_administrated(reference: RunningBroker, admin: AdminClient, topic: str) -> None:
    """CreateTopics, CreatePartitions, DescribeTopicPartitions or Metadata, DeleteTopics, and an error of each."""
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result()
    wait_for_topic(reference, topic, 5)
    described = admin.describe_topics(TopicCollection([topic]))[topic].result()
    assert [(p.id, p.leader.id, [r.id for r in p.isr]) for p in described.partitions] == [(i, 1, [1]) for i in range(5)]
    with pytest.raises(KafkaException, match="INVALID_PARTITIONS"):
        admin.create_partitions([NewPartitions(topic, 2)])[topic].result()

    admin.delete_topics([topic])[topic].result()
    with pytest.raises(KafkaException, match="UNKNOWN_TOPIC_OR_PART"):
        admin.delete_topics([topic])[topic].result()


def test_configs_are_altered(reference: RunningBroker, admin: AdminClient, topic: str) -> None:
    """IncrementalAlterConfigs: set, append to a list, and delete; DescribeConfigs returns the sources."""
    resource = ConfigResource(ResourceType.TOPIC, topic)

    def alter(key: str, value: str | None, operation: AlterConfigOpType) -> None:
        entry = ConfigEntry(key, value, incremental_operation=operation)
        changed = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        admin.incremental_alter_configs([changed])[changed].result()

    def is_described(**values: str) -> None:
        described = admin.describe_configs([resource])[resource].result()
        for key, value in values.items():
            assert described[key.replace("_", ".")].value == value
        assert described["cleanup.policy"].source == 1  # a dynamic topic config

    alter("retention.ms", "12345", AlterConfigOpType.SET)
    alter("cleanup.policy", "compact", AlterConfigOpType.APPEND)
    settled(reference, lambda: is_described(retention_ms="12345", cleanup_policy="delete,compact"))

    alter("retention.ms", None, AlterConfigOpType.DELETE)
    settled(reference, lambda: is_described(retention_ms="604800000", cleanup_policy="delete,compact"))


def test_records_are_deleted_and_offsets_listed(admin: AdminClient, consumed: str) -> None:
    """DeleteRecords and ListOffsets with each specification."""
    partition = TopicPartition(consumed, 0)

    def offset(specification: OffsetSpec) -> int:
        return int(admin.list_offsets({partition: specification})[partition].result().offset)

    end = offset(OffsetSpec.latest())
    assert offset(OffsetSpec.earliest()) == 0
    assert 0 <= offset(OffsetSpec.max_timestamp()) < end
    below = TopicPartition(consumed, 0, 1)
    assert admin.delete_records([below])[below].result().low_watermark == 1
    assert offset(OffsetSpec.earliest()) == 1
    assert offset(OffsetSpec.for_timestamp(0)) == 1


@pytest.mark.parametrize(
    ("linger_ms", "batch_records", "batches"), [(60_000, 50, 1), (60_000, 10, 5), (0, 1, 50)], ids=str
)
def test_producers_send_in_batches(
    reference: RunningBroker, admin: AdminClient, name: str, linger_ms: int, batch_records: int, batches: int
) -> None:
    """S10.7: limited by time and by size; the broker stores what arrives together as one batch."""
    admin.create_topics([NewTopic(name, 1, 1)])[name].result()
    wait_for_topic(reference, name, 1)
    produce(reference, name, 50, linger_ms=linger_ms, batch_num_messages=batch_records, compression_type="none")
    with DataClient(HOST, reference.port) as client:
        records = client.fetch(name, 0).records
    position = stored = 0
    while (entry := entry_at(records, position)) is not None:
        position += entry[1]
        stored += 1

    assert position == len(records)
    assert stored == batches


def test_cluster_is_described(admin: AdminClient, reference: RunningBroker) -> None:
    """DescribeCluster."""
    described = admin.describe_cluster().result()

    assert [(node.id, node.host, node.port) for node in described.nodes] == [(1, "127.0.0.1", reference.port)]
