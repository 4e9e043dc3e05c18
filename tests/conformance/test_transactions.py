"""Transactions of stock clients and of kafka-transactions behave as with Apache Kafka."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import KafkaError, KafkaException, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as PythonPartition

from protocol.messages.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
)
from tests.conformance.conftest import StartBroker
from tests.support.brokers import HOST, RunningBroker
from tests.support.eventually import eventually
from tests.support.java import JavaRunner, java_command
from tests.support.moved_records import move_in_transactions
from tests.support.scale import COSTLY_BROKERS, scaled
from tests.support.settled import wait_for_topic
from tests.support.tools import MAIN_CLASSES
from tests.support.txn_client import TxnClient

TRANSACTIONS = scaled(9)
_BROKER = 4


@pytest.fixture
def client(reference: RunningBroker) -> Iterator[TxnClient]:
    with TxnClient(HOST, reference.port) as made:
        yield made


@pytest.fixture
def topic(reference: RunningBroker, client: TxnClient, name: str) -> str:
    """Create a topic of two partitions; return its name, which is also the transactional id."""
    client.create_topic(name, 2)
    wait_for_topic(reference, name, 2)
    client.wait_for_coordinator(name)
    return name


def expected(partition: int) -> list[bytes]:
    """Return the committed values: the first of each three transactions is aborted."""
    return [b"%d-%d" % (number, partition) for number in range(TRANSACTIONS) if number % 3]


def check(client: TxnClient, topic: str) -> None:
    """Check the written records of the clients' tests, after their last markers."""
    client.settled(topic)
    for partition in (0, 1):
        assert client.committed_values(topic, partition) == expected(partition)
        aborted = client.aborted(topic, partition)
        assert aborted.count("P") == TRANSACTIONS - len(expected(partition))


# -- clients -----------------------------------------------------------------------------------------------------------


def test_confluent_kafka_commits_and_aborts(reference: RunningBroker, client: TxnClient, topic: str):
    """S20.12, S20.14: the five calls, one after the other."""
    producer = Producer({"bootstrap.servers": reference.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for number in range(TRANSACTIONS):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce(topic, b"%d-%d" % (number, partition), partition=partition)
        producer.flush()
        if number % 3:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    check(client, topic)


def test_confluent_kafka_is_fenced_by_its_successor(reference: RunningBroker, client: TxnClient, topic: str):
    """S20.17: its open transaction is aborted, and all its calls fail."""
    first = Producer({"bootstrap.servers": reference.bootstrap, "transactional.id": topic})
    first.init_transactions(30)
    first.begin_transaction()
    first.produce(topic, b"never", partition=0)
    first.flush()
    second = Producer({"bootstrap.servers": reference.bootstrap, "transactional.id": topic})
    second.init_transactions(30)
    with pytest.raises(KafkaException) as fenced:
        first.commit_transaction()
    assert fenced.value.args[0].code() == KafkaError._FENCED
    assert client.committed_values(topic) == []
    assert client.latest(topic, committed=True) == 2


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_confluent_kafka_moves_records_and_their_offsets_as_one(
    reference: RunningBroker, client: TxnClient, topic: str, protocol: str
):
    """S20.13: consume, transform, produce: each record is there once, and aborted ones are read again."""
    output = f"{topic}-output"
    client.create_topic(output, 2)
    wait_for_topic(reference, output, 2)
    count = scaled(60)
    source = Producer({"bootstrap.servers": reference.bootstrap})
    for number in range(count):
        source.produce(topic, b"%d" % number, partition=number % 2)
    source.flush()
    move_in_transactions(reference.bootstrap, topic, output, count, protocol)
    client.settled(topic)
    for partition in (0, 1):
        found = Counter(client.committed_values(output, partition))
        assert found == Counter(b"%d" % number for number in range(partition, count, 2))
    assert sum(client.committed(topic, topic, (0, 1))) == count


def test_kafka_python_commits_and_aborts(reference: RunningBroker, client: TxnClient, topic: str):
    producer = KafkaProducer(bootstrap_servers=reference.bootstrap, transactional_id=topic)
    producer.init_transactions()
    for number in range(TRANSACTIONS):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.send(topic, b"%d-%d" % (number, partition), partition=partition)
        producer.flush()
        if number % 3:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    check(client, topic)
    producer.begin_transaction()
    producer.send_offsets_to_transaction({PythonPartition(topic, 0): OffsetAndMetadata(7, "m", -1)}, topic)
    producer.commit_transaction()
    producer.close()
    client.settled(topic)
    assert client.committed(topic, topic) == [7]
    consumer = KafkaConsumer(
        bootstrap_servers=reference.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    )
    consumer.assign([PythonPartition(topic, 0)])
    seen = [next(consumer).value for _ in expected(0)]
    consumer.close()
    assert seen == expected(0)


def test_aiokafka_commits_and_aborts(reference: RunningBroker, client: TxnClient, topic: str):
    async def scenario() -> list[bytes]:
        producer = AIOKafkaProducer(bootstrap_servers=reference.bootstrap, transactional_id=topic)
        await producer.start()
        for number in range(TRANSACTIONS):
            await producer.begin_transaction()
            for partition in (0, 1):
                await producer.send_and_wait(topic, b"%d-%d" % (number, partition), partition=partition)
            if number % 3:
                await producer.commit_transaction()
            else:
                await producer.abort_transaction()
        async with producer.transaction():
            await producer.send_offsets_to_transaction({AioPartition(topic, 1): 5}, topic)
        await producer.stop()
        consumer = AIOKafkaConsumer(
            bootstrap_servers=reference.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
        )
        consumer.assign([AioPartition(topic, 1)])
        async with consumer:
            return [(await consumer.getone()).value for _ in expected(1)]

    seen = asyncio.run(asyncio.wait_for(scenario(), 60))
    assert seen == expected(1)
    check(client, topic)
    assert client.committed(topic, topic, (1,)) == [5]


# -- Java --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("end", "visible"), [("commit", 3), ("abort", 0), ("fenced", 0)])
def test_java_producer_ends_its_transaction(
    java: JavaRunner, reference: RunningBroker, client: TxnClient, topic: str, end: str, visible: int
):
    """S20.16: fenced before the commit, it closes; read_committed sees none of its records, and a marker follows."""
    said = java.run("Transactional", reference.bootstrap, topic, topic, end).stdout.split()
    assert said == [{"commit": "committed", "abort": "aborted", "fenced": "fenced"}[end]]
    client.settled(topic)
    partition = next(each for each in (0, 1) if client.bounds(topic, each)[1])
    assert len(client.committed_values(topic, partition)) == visible
    assert client.latest(topic, partition, committed=True) == client.latest(topic, partition, committed=False) == 4


@pytest.mark.parametrize("kind", COSTLY_BROKERS)
def test_a_killed_java_producers_transaction_times_out(
    start_broker: StartBroker, java_classpath: list[Path], kind: str
):
    """S20.16: the coordinator is not informed, so it waits for the transaction's timeout."""
    broker = start_broker(kind, {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"})
    arguments = [broker.bootstrap, "t", "left", "stay", "transaction.timeout.ms=3000"]
    with TxnClient(HOST, broker.port) as client:
        client.create_topic("t")
        wait_for_topic(broker, "t", 1)
        process = subprocess.Popen(java_command("Transactional", arguments, java_classpath), stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"written\n"
        process.kill()
        process.wait()
        assert client.latest("t", committed=True) == 0
        eventually(lambda: client.latest("t", committed=True) > 0)
        assert client.settled("left").startswith("CompleteAbort")
        assert client.committed_values("t") == []
        assert client.latest("t", committed=False) == 4
    broker.stop()


# -- kafka-transactions ------------------------------------------------------------------------------------------------


def tool(java: JavaRunner, broker: RunningBroker, *arguments: str) -> list[list[str]]:
    """Return the rows that kafka-transactions prints, without the heading."""
    program = java.run(MAIN_CLASSES["kafka-transactions"], "--bootstrap-server", broker.bootstrap, *arguments)
    return [line.split() for line in program.stdout.splitlines()[1:]]


def test_open_transactions_are_listed_and_described(
    java: JavaRunner, reference: RunningBroker, client: TxnClient, topic: str
):
    client.init_with_retries(topic)
    assert client.write(topic, ("P0", 0), (topic, 0), 0, version=12) == "NONE 0"
    producer_id = str(client.producer_id("P0"))
    listed = {row[0]: row[1:] for row in tool(java, reference, "list")}
    assert listed[topic] == ["1", producer_id, "Ongoing"]
    old = tool(java, reference, "list", "--duration-filter", "3600000")
    assert topic not in [row[0] for row in old]  # others may have ids whose transaction never began
    [row] = tool(java, reference, "describe", "--transactional-id", topic)
    assert row[:6] == ["1", topic, producer_id, "0", "Ongoing", "60000"]
    assert row[8] == f"{topic}-0"
    [row] = tool(java, reference, "describe-producers", "--topic", topic, "--partition", "0")
    assert (row[0], row[1], row[2], row[3], row[5]) == (producer_id, "0", "-1", "0", "0")
    client.end(topic, ("P0", 0), False, 5)
    client.settled(topic)


def set_verification(client: TxnClient, enabled: bool) -> None:
    """Set transaction.partition.verification.enable of all brokers."""
    config = AlterableConfig(
        name="transaction.partition.verification.enable", config_operation=0, value=str(enabled).lower()
    )
    resource = AlterConfigsResource(resource_type=_BROKER, resource_name="", configs=[config])
    answer = client.call(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource])
    assert not answer.responses[0].error_code


def test_hanging_transaction_is_found_and_aborted(
    java: JavaRunner, reference: RunningBroker, client: TxnClient, topic: str
):
    """No coordinator knows it; without verification a broken producer can leave one, here a day ago (KIP-664)."""
    client.init_with_retries(topic)
    client.timestamp = int(time.time() * 1000) - 86_400_000 // 2
    set_verification(client, False)
    eventually(lambda: client.write(topic, ("P0", 0), (topic, 0), 0, version=9), equal_to="NONE 0")
    set_verification(client, True)
    assert client.latest(topic, committed=True) == 0
    found = tool(java, reference, "find-hanging", "--broker-id", str(reference.node_id), "--topic", topic)
    assert [row[:2] for row in found] == [[topic, "0"]]
    assert tool(java, reference, "abort", "--topic", topic, "--partition", "0", "--start-offset", "0") == []
    assert client.latest(topic, committed=True) == 2
    assert client.committed_values(topic) == []
