"""Static members (KIP-345) with librdkafka's consumers: they restart without a rebalance."""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from protocol.messages.describe_groups import DESCRIBE_GROUPS
from tests.support.brokers import HOST, RunningBroker
from tests.support.wire import WireClient


def consumer(broker: RunningBroker, group: str, instance: str, topic: str) -> Consumer:
    """A static member that does not leave when it is closed."""
    made = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "group.instance.id": instance,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 30_000,
            "heartbeat.interval.ms": 200,
        }
    )
    made.subscribe([topic])
    return made


def poll_until(done: Callable[[], bool], *consumers: Consumer) -> None:
    """Poll consumers until a condition holds."""
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        for each in consumers:
            message = each.poll(0.05)
            if message is not None and message.error() is not None:
                raise KafkaException(message.error())


def state_and_assignments(broker: RunningBroker, group: str) -> tuple[str, dict[str, bytes]]:
    """Return (state, assignment by instance id)."""
    with WireClient(HOST, broker.port) as client:
        described = client.call(DESCRIBE_GROUPS, 5, groups=[group]).groups[0]
    return described.group_state, {each.group_instance_id: each.member_assignment for each in described.members}


def test_a_static_member_returns_to_its_partitions(reference: RunningBroker, name: str) -> None:
    """Its partitions stay reserved, the other member is not disturbed, and offsets continue."""
    admin = AdminClient({"bootstrap.servers": reference.bootstrap})
    admin.create_topics([NewTopic(name, 4, 1)])[name].result(60)
    producer = Producer({"bootstrap.servers": reference.bootstrap})
    for partition in range(4):
        producer.produce(name, f"before {partition}", partition=partition)
    assert producer.flush(60) == 0

    one, two = consumer(reference, name, "one", name), consumer(reference, name, "two", name)
    poll_until(lambda: len(one.assignment()) == 2 and len(two.assignment()) == 2, one, two)
    mine = sorted(each.partition for each in one.assignment())
    one.commit(offsets=[TopicPartition(name, partition, 1) for partition in mine], asynchronous=False)
    before = state_and_assignments(reference, name)
    assert before[0] == "Stable"
    one.close()
    assert state_and_assignments(reference, name) == before

    for partition in range(4):
        producer.produce(name, f"after {partition}", partition=partition)
    assert producer.flush(60) == 0
    again = consumer(reference, name, "one", name)
    read: list[str] = []
    deadline = time.monotonic() + 60
    while len(read) < 2:
        assert time.monotonic() < deadline
        message = again.poll(0.1)
        if message is not None:
            assert message.error() is None
            read.append(message.value().decode())
        two.poll(0)
    assert sorted(read) == [f"after {partition}" for partition in mine]
    assert sorted(each.partition for each in again.assignment()) == mine
    assert state_and_assignments(reference, name) == before

    for each in (again, two):
        each.close()
