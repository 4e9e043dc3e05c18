"""A broker restarts under its clients, at the same address or at another: they continue and lose nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from tests.conformance.conftest import StartBroker
from tests.support.brokers import HOST, RunningBroker
from tests.support.java import JavaRunner
from tests.support.kafka_python import know_topics
from tests.support.ports import free_port
from tests.support.settled import wait_for_topic
from tests.support.tools import start_tool

TOPIC = "events"
RECORDS = 20  # of each producer, before the restart and after it


class Client(Protocol):
    """A producer and a member of a group, of one library."""

    def send(self, value: str) -> object: ...
    def values(self) -> set[str]: ...
    def close(self) -> None: ...


class Librdkafka:
    """confluent-kafka."""

    def __init__(self, addresses: str) -> None:
        common: dict[str, Any] = {"bootstrap.servers": addresses, "reconnect.backoff.max.ms": 200, "log_level": 0}
        self._producer = Producer(common)
        self._consumer = Consumer({**common, "group.id": "librdkafka", "auto.offset.reset": "earliest"})
        self._consumer.subscribe([TOPIC])
        self._seen: set[str] = set()

    def send(self, value: str) -> object:
        self._producer.produce(TOPIC, value)
        assert self._producer.flush(60) == 0
        return None

    def values(self) -> set[str]:
        received = self._consumer.consume(100, 0.1)
        self._seen |= {message.value().decode() for message in received if message.error() is None}
        return self._seen

    def close(self) -> None:
        self._consumer.close()


class KafkaPython:
    """kafka-python: after its start it knows only the addresses that brokers returned, so these must not change."""

    def __init__(self, addresses: str) -> None:
        servers = addresses.split(",")
        common: dict[str, Any] = {"bootstrap_servers": servers, "reconnect_backoff_max_ms": 200}
        self._producer = KafkaProducer(**common)
        self._consumer = KafkaConsumer(TOPIC, group_id="python", auto_offset_reset="earliest", **common)
        know_topics(self._consumer, TOPIC)
        self._seen: set[str] = set()

    def send(self, value: str) -> object:
        return self._producer.send(TOPIC, value.encode()).get(timeout=60)

    def values(self) -> set[str]:
        for records in self._consumer.poll(timeout_ms=100).values():
            self._seen |= {record.value.decode() for record in records}
        return self._seen

    def close(self) -> None:
        self._consumer.close()
        self._producer.close()


class Java:
    """The Java consumer."""

    def __init__(self, addresses: str, java: JavaRunner) -> None:
        self._program = java.start("Consume", addresses, TOPIC, "java", "0", "auto", "auto.offset.reset=earliest")

    def send(self, value: str) -> object:
        return None

    def values(self) -> set[str]:
        return {line.split(":")[3] for line in self._program.stdout.splitlines() if line.count(":") == 3}

    def close(self) -> None:
        self._program.stop()


@pytest.fixture(params=["ours", "kafka"])
def broker(request: pytest.FixtureRequest, start_broker: StartBroker) -> RunningBroker:
    """A broker of the test's own."""
    return start_broker(request.param)


@pytest.mark.parametrize(
    "kinds", [(Librdkafka, Java), (Librdkafka, KafkaPython, Java)], ids=["another-port", "same-port"]
)
def test_clients_continue(broker: RunningBroker, java: JavaRunner, kinds: tuple[Callable[..., Client], ...]) -> None:
    """S18.8: a broker is identified by its id, not its address; groups and their offsets survive.

    Producers retry requests in flight (S10.9). Where the port changes, clients are given both addresses.
    """
    port = broker.port if KafkaPython in kinds else free_port()
    addresses = ",".join(dict.fromkeys([broker.bootstrap, f"{HOST}:{port}"]))
    start_tool(java, broker.bootstrap, "kafka-topics", "--create", "--topic", TOPIC, "--partitions", "3").wait()
    wait_for_topic(broker, TOPIC, 3)
    clients = [kind(addresses, java) if kind is Java else kind(addresses) for kind in kinds]
    producers = {type(client).__name__: client.send for client in clients if not isinstance(client, Java)}
    expected: set[str] = set()

    def produce(numbers: range) -> None:
        for number in numbers:
            for source, send in producers.items():
                send(f"{source}-{number}")

    def everything_arrives(numbers: range) -> None:
        expected.update(f"{source}-{number}" for source in producers for number in numbers)
        with ThreadPoolExecutor(1) as sender:
            sending = sender.submit(produce, numbers)
            deadline = time.monotonic() + 120
            while [client for client in clients if client.values() != expected]:  # ask each of them
                if sending.done():
                    sending.result()
                assert time.monotonic() < deadline, [(type(c).__name__, sorted(expected - c.values())) for c in clients]
            sending.result()

    everything_arrives(range(RECORDS))
    broker.stop()
    broker.start(port=port)
    everything_arrives(range(RECORDS, 2 * RECORDS))
    for client in clients:
        client.close()
