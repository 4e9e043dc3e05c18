"""A consumer group with members of different client libraries, which join, leave and die; no record is lost."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conformance.conftest import StartBroker
from tests.support.brokers import RunningBroker
from tests.support.group_members import Load, Members
from tests.support.scale import COSTLY_BROKERS
from tests.support.settled import wait_for_topic

TOPIC = GROUP = "mixed"
PARTITIONS = 6
PROPERTIES = {
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "10000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
}


@pytest.fixture(params=COSTLY_BROKERS)
def broker(request: pytest.FixtureRequest, start_broker: StartBroker) -> RunningBroker:
    """A broker that allows short sessions."""
    broker = start_broker(request.param, PROPERTIES)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result()
    wait_for_topic(broker, TOPIC, PARTITIONS)
    return broker


@pytest.fixture
def load(broker: RunningBroker) -> Iterator[Load]:
    """Run a producer through the whole test."""
    load = Load(broker.bootstrap, TOPIC)
    yield load
    load.stop()


@pytest.fixture
def members(broker: RunningBroker, load: Load, tmp_path: Path) -> Iterator[Members]:
    """Return no members yet; all are killed at the end."""
    members = Members(broker, load, TOPIC, GROUP, tmp_path)
    yield members
    members.kill()


def test_members_join_leave_and_die(members: Members) -> None:
    """S18.1: each record is read, and none again after its batch is committed."""
    members.join("kafka-python")
    going = members.join("aiokafka")
    dying = members.join("confluent")
    going.end(signal.SIGTERM)
    members.join("aiokafka")
    dying.end(signal.SIGKILL)
    members.join("confluent")
    members.finish()
    members.kill()
    members.check()


def test_application_is_rolled_to_the_consumer_protocol_and_back(broker: RunningBroker, members: Members) -> None:
    """KIP-848, online migration: one instance after another, under load; the group changes its kind on the way."""
    one, two = members.join("confluent"), members.join("aiokafka")
    assert group_type(broker) == "CLASSIC"
    first = members.join("confluent-consumer")
    assert group_type(broker) == "CONSUMER"
    one.end(signal.SIGTERM)
    second = members.join("confluent-consumer")
    two.end(signal.SIGTERM)
    dying = members.join("confluent-consumer")
    dying.end(signal.SIGKILL)
    third = members.join("aiokafka")
    first.end(signal.SIGTERM)
    members.join("confluent")
    second.end(signal.SIGTERM)
    members.wait_until(lambda: group_type(broker) == "CLASSIC", "the group is still one of the consumer protocol")
    third.end(signal.SIGTERM)
    members.finish()
    members.kill()
    members.check()


def group_type(broker: RunningBroker) -> str:
    """Return the type of the members' group."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (group,) = admin.list_consumer_groups().result().valid
    return str(group.type.name)
