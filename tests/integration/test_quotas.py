"""Clients with quotas: they are slower but lose nothing, and others are not slowed."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest
from kafka import KafkaConsumer, KafkaProducer

from protocol.messages.alter_client_quotas import ALTER_CLIENT_QUOTAS, EntityData, OpData, RequestEntryData
from protocol.messages.create_topics import CREATE_TOPICS, CreatableTopic
from protocol.messages.metadata import METADATA
from tests.support.brokers import HOST, OurBroker
from tests.support.wire import WireClient

TOPIC = "limited"


# A broker with two quota windows of a second, so that violations are noticed soon.
pytestmark = pytest.mark.broker(OurBroker, {"quota.window.num": "2"})


@pytest.fixture
def client(broker: OurBroker) -> Iterator[WireClient]:
    with WireClient(HOST, broker.port) as client:
        yield client


def limit(client: WireClient, kind: str, name: str | None, key: str, value: float | None) -> None:
    entry = RequestEntryData(
        entity=[EntityData(entity_type=kind, entity_name=name)],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None)],
    )
    (answer,) = client.call(ALTER_CLIENT_QUOTAS, 1, entries=[entry]).entries
    assert (answer.error_code, answer.error_message) == (0, None)


def test_producer_and_consumer_are_throttled(broker: OurBroker, client: WireClient) -> None:
    """They transfer all records at their rate."""
    client.call(CREATE_TOPICS, 7, topics=[CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)])
    limit(client, "client-id", "slow", "producer_byte_rate", 50_000.0)
    limit(client, "client-id", "slow", "consumer_byte_rate", 50_000.0)
    begun = time.monotonic()
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, client_id="slow", linger_ms=0, batch_size=0)
    for number in range(60):
        producer.send(TOPIC, b"%04d" % number + bytes(2_500))
    producer.close()
    assert 1.0 < time.monotonic() - begun < 15
    begun = time.monotonic()
    consumer = KafkaConsumer(
        TOPIC,
        bootstrap_servers=broker.bootstrap,
        client_id="slow",
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=20_000,
    )
    values = [record.value[:4] for _, record in zip(range(60), consumer, strict=False)]
    assert values == [b"%04d" % number for number in range(60)]
    assert 1.0 < time.monotonic() - begun < 15
    consumer.close()


def test_clients_without_quota_are_not_throttled(broker: OurBroker, client: WireClient) -> None:
    limit(client, "client-id", "slow", "producer_byte_rate", 1.0)
    begun = time.monotonic()
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, client_id="quick")
    for _ in range(60):
        producer.send("free", bytes(2_500))
    producer.close()
    assert time.monotonic() - begun < 5


def test_address_over_its_connection_rate_is_throttled(broker: OurBroker, client: WireClient) -> None:
    limit(client, "ip", "127.0.0.9", "connection_creation_rate", 1.0)
    begun = time.monotonic()
    connections = [socket.create_connection((HOST, broker.port), source_address=("127.0.0.9", 0)) for _ in range(3)]
    first, *others = connections
    for each in others:
        each.settimeout(10)
        assert each.recv(1) == b""
    assert time.monotonic() - begun > 0.3
    first.setblocking(False)
    with pytest.raises(BlockingIOError):
        first.recv(1)
    for each in connections:
        each.close()
    with WireClient(HOST, broker.port) as other:
        assert other.call(METADATA, 12, topics=[]).brokers
    limit(client, "ip", "127.0.0.9", "connection_creation_rate", None)
