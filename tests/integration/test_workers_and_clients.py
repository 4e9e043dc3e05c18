"""Stock clients of a broker with num.workers=2: they find the partitions of both workers."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic as PythonTopic
from kafka.structs import TopicPartition as PythonPartition

from tests.support.kafka_python import know_topics
from tests.support.moved_records import move_in_transactions
from tests.support.several_workers import WorkersBroker

PARTITIONS = 4
RECORDS = 200
_TIMEOUT_S = 60


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkersBroker]:
    started = WorkersBroker(tmp_path_factory.mktemp("workers"))
    yield started
    assert started.stop() == 0
    assert "Traceback" not in started.output


@pytest.fixture
def topic(broker: WorkersBroker, request: pytest.FixtureRequest) -> str:
    """A topic with partitions of both workers."""
    name = request.node.name.replace("[", "-").replace("]", "")
    broker.client().create_topic(name, PARTITIONS)
    assert sorted(broker.leaders(name)) == [1, 1, 2, 2]
    return str(name)


def values(partition: int) -> list[bytes]:
    return [b"%d-%d" % (partition, number) for number in range(RECORDS)]


def written_with_librdkafka(broker: WorkersBroker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
    for partition in range(PARTITIONS):
        for value in values(partition):
            producer.produce(topic, value, partition=partition)
    assert producer.flush(_TIMEOUT_S) == 0


def stored(broker: WorkersBroker, topic: str) -> list[list[bytes]]:
    return [broker.at(topic, index).values(topic, index) for index in range(PARTITIONS)]


@pytest.mark.parametrize("worker", [0, 1])
def test_kafka_python_writes_and_reads(broker: WorkersBroker, topic: str, worker: int) -> None:
    """The bootstrap server may be either worker."""
    bootstrap = f"127.0.0.1:{broker.port + worker}"
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for partition in range(PARTITIONS):
        for value in values(partition):
            producer.send(topic, value, partition=partition)
    producer.flush()
    producer.close()
    assert stored(broker, topic) == [values(partition) for partition in range(PARTITIONS)]

    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    consumer.assign([PythonPartition(topic, index) for index in range(PARTITIONS)])
    records_read = [next(consumer) for _ in range(PARTITIONS * RECORDS)]
    consumer.close()
    for partition in range(PARTITIONS):
        assert [each.value for each in records_read if each.partition == partition] == values(partition)


def test_kafka_python_in_a_group(broker: WorkersBroker, topic: str) -> None:
    """Two members share the partitions of both workers, and the broker has their committed offsets."""
    written_with_librdkafka(broker, topic)
    members = [
        KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=topic, auto_offset_reset="earliest")
        for _ in range(2)
    ]
    read: Counter[bytes] = Counter()
    deadline = time.monotonic() + _TIMEOUT_S
    for member in members:
        member.subscribe([topic])
        know_topics(member, topic)
    while sum(read.values()) < PARTITIONS * RECORDS or not all(member.assignment() for member in members):
        assert time.monotonic() < deadline
        for member in members:
            for records in member.poll(100).values():
                read.update(record.value for record in records)
                member.commit()
    for member in members:
        member.close()
    assert set(read) == {value for partition in range(PARTITIONS) for value in values(partition)}
    assert broker.client().committed(topic, topic, range(PARTITIONS)) == [RECORDS] * PARTITIONS


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_librdkafka_in_a_group(broker: WorkersBroker, topic: str, protocol: str) -> None:
    """With both group protocols."""
    written_with_librdkafka(broker, topic)
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": topic, "group.protocol": protocol}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe([topic])
    read: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    deadline = time.monotonic() + _TIMEOUT_S
    while sum(map(len, read)) < PARTITIONS * RECORDS:
        assert time.monotonic() < deadline
        for record in consumer.consume(500, timeout=1):
            assert record.error() is None
            read[record.partition()].append(record.value())
    consumer.commit(asynchronous=False)
    consumer.close()
    assert read == [values(partition) for partition in range(PARTITIONS)]
    assert broker.client().committed(topic, topic, range(PARTITIONS)) == [RECORDS] * PARTITIONS


def test_librdkafka_consumes_and_produces_transactionally(broker: WorkersBroker, topic: str) -> None:
    """Transactions span both workers. Each third one is aborted and repeated."""
    written_with_librdkafka(broker, topic)
    output = f"{topic}-output"
    broker.client().create_topic(output, PARTITIONS)
    move_in_transactions(broker.bootstrap, topic, output, PARTITIONS * RECORDS)
    broker.client().settled(topic)
    for partition in range(PARTITIONS):
        records_read = broker.at(output, partition).committed_values(output, partition)
        assert sorted(records_read) == sorted(values(partition))
    assert broker.client().committed(topic, topic, range(PARTITIONS)) == [RECORDS] * PARTITIONS


def check_every_third_is_missing(broker: WorkersBroker, topic: str) -> None:
    """Assert that each partition lacks each third transaction, which was aborted, and has its markers."""
    broker.client().settled(topic)
    for partition in range(PARTITIONS):
        client = broker.at(topic, partition)
        assert client.committed_values(topic, partition) == [b"%d" % number for number in range(9) if number % 3]
        assert client.latest(topic, partition, committed=True) == client.latest(topic, partition, committed=False) == 18


def test_kafka_python_commits_and_aborts(broker: WorkersBroker, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=topic)
    producer.init_transactions()
    for number in range(9):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.send(topic, b"%d" % number, partition=partition)
        producer.flush()
        if number % 3:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.close()
    check_every_third_is_missing(broker, topic)


def test_aiokafka_commits_aborts_and_reads_in_a_group(broker: WorkersBroker, topic: str) -> None:
    async def scenario() -> Counter[bytes]:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=topic) as producer:
            for number in range(9):
                await producer.begin_transaction()
                for partition in range(PARTITIONS):
                    await producer.send_and_wait(topic, b"%d" % number, partition=partition)
                if number % 3:
                    await producer.commit_transaction()
                else:
                    await producer.abort_transaction()
        settings = {"bootstrap_servers": broker.bootstrap, "group_id": topic, "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer(topic, isolation_level="read_committed", **settings) as consumer:
            return Counter([(await consumer.getone()).value for _ in range(6 * PARTITIONS)])

    seen = asyncio.run(asyncio.wait_for(scenario(), _TIMEOUT_S))
    assert seen == {b"%d" % number: PARTITIONS for number in range(9) if number % 3}
    check_every_third_is_missing(broker, topic)


def test_librdkafka_administers(broker: WorkersBroker, topic: str) -> None:
    """Requests for topics, partitions, configs and records go to a worker that is not the controller."""
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{broker.port + 1}"})
    made = f"{topic}-made"
    admin.create_topics([NewTopic(made, 2)])[made].result(_TIMEOUT_S)
    admin.create_partitions([NewPartitions(made, PARTITIONS)])[made].result(_TIMEOUT_S)
    cluster = admin.list_topics(made, timeout=_TIMEOUT_S)
    assert sorted(cluster.brokers) == [1, 2]
    assert sorted(each.leader for each in cluster.topics[made].partitions.values()) == [1, 1, 2, 2]

    for worker in (0, 1):
        resource = ConfigResource(ConfigResource.Type.BROKER, str(broker.node_id + worker))
        described = admin.describe_configs([resource])[resource].result(_TIMEOUT_S)
        assert described["num.workers"].value == "2"

    written_with_librdkafka(broker, topic)
    deleted = admin.delete_records([TopicPartition(topic, index, 7) for index in range(PARTITIONS)])
    assert [each.result(_TIMEOUT_S).low_watermark for each in deleted.values()] == [7] * PARTITIONS
    for index in range(PARTITIONS):
        assert broker.at(topic, index).bounds(topic, index) == (7, RECORDS)

    admin.delete_topics([made])[made].result(_TIMEOUT_S)
    with pytest.raises(KafkaException) as refused:
        admin.delete_topics([made])[made].result(_TIMEOUT_S)
    assert refused.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_kafka_python_administers(broker: WorkersBroker, topic: str) -> None:
    """A group is listed once, although the client asks each broker."""
    broker.client().commit(topic, {(topic, 0): 3})
    admin = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{broker.port + 1}")
    made = f"{topic}-made"
    admin.create_topics([PythonTopic(made, 2, 1)])
    assert made in admin.list_topics()
    admin.delete_topics([made])
    assert made not in admin.list_topics()
    assert [each["group_id"] for each in admin.list_groups()].count(topic) == 1
    assert admin.list_group_offsets([topic])[topic][PythonPartition(topic, 0)].offset == 3
    admin.close()


def test_clients_survive_a_changed_number_of_workers(tmp_path: Path) -> None:
    """Partitions then have another leader, perhaps in the same epoch. A producer and a consumer continue."""
    broker = WorkersBroker(tmp_path, most=3)
    broker.client().create_topic("t", PARTITIONS)
    quick = {"bootstrap.servers": broker.bootstrap, "reconnect.backoff.max.ms": 100, "log_level": 0}
    producer = Producer({**quick, "enable.idempotence": True})
    consumer = Consumer({**quick, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    sent, read = 0, [[] for _ in range(PARTITIONS)]  # type: ignore[var-annotated]
    for count in (2, 3, 1, 2):
        if count != broker.count:
            assert broker.stop() == 0
            broker.count = count
            broker.start()
        for _ in range(RECORDS):
            for partition in range(PARTITIONS):
                producer.produce("t", b"%d" % sent, partition=partition)
            sent += 1
        assert producer.flush(_TIMEOUT_S) == 0
        deadline = time.monotonic() + _TIMEOUT_S
        while sum(map(len, read)) < sent * PARTITIONS:
            assert time.monotonic() < deadline
            for record in consumer.consume(1000, timeout=0.5):
                if record.error() is None:
                    read[record.partition()].append(record.value())
    consumer.close()
    assert read == [[b"%d" % number for number in range(sent)]] * PARTITIONS
    assert broker.stop() == 0
