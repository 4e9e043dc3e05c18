"""Replicas of a member and of a broker of Apache Kafka follow one another, under a controller of Apache Kafka."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from protocol.messages.metadata import METADATA, MetadataRequestTopic
from protocol.schema import Struct
from tests.conformance.test_membership import consume
from tests.integration.membership.kafka_nodes import QUIET, OtherBroker, Pair, brokers_of_both_kinds
from tests.integration.membership.member_broker import MemberBroker
from tests.support.brokers import HOST, RunningBroker
from tests.support.eventually import eventually
from tests.support.wire import WireClient

OURS, THEIRS = 1, 2
COUNT = 200


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    properties = {
        "replica.lag.time.max.ms": "3000",
        "broker.heartbeat.interval.ms": "300",
        "controlled.shutdown.enable": "true",
    }
    with brokers_of_both_kinds(tmp_path_factory.mktemp, properties) as pair:
        yield pair


@pytest.fixture
def member(pair: Pair) -> MemberBroker:
    return pair.member


@pytest.fixture
def other(pair: Pair) -> OtherBroker:
    return pair.other


@pytest.fixture
def admin(pair: Pair) -> AdminClient:
    return AdminClient({**QUIET, "bootstrap.servers": pair.bootstrap})


def create(admin: AdminClient, *replicas: int, least: int = 2) -> str:
    """Create a topic with one partition. The first replica leads; both brokers know it by the first record."""
    name = uuid.uuid4().hex
    topic = NewTopic(
        name, num_partitions=1, replica_assignment=[list(replicas)], config={"min.insync.replicas": str(least)}
    )
    (created,) = admin.create_topics([topic]).values()
    created.result(30)
    return name


def partition(broker: RunningBroker, topic: str) -> Struct:
    """Return the topic's partition as this broker knows it."""
    with WireClient(HOST, broker.port) as client:
        answer = client.call(METADATA, 9, topics=[MetadataRequestTopic(name=topic)])
    found: Struct
    (found,) = answer.topics[0].partitions
    return found


def isr(broker: RunningBroker, topic: str) -> list[int]:
    return sorted(partition(broker, topic).isr_nodes)


def leader(broker: RunningBroker, topic: str) -> int:
    return int(partition(broker, topic).leader_id)


def produce(brokers: str, topic: str, first: int, count: int) -> None:
    """Produce numbers with acks=all; each is acknowledged."""
    producer = Producer({**QUIET, "bootstrap.servers": brokers, "enable.idempotence": True, "linger.ms": 0})
    failed: list[object] = []
    for number in range(first, first + count):
        producer.produce(topic, str(number), on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(60) == 0
    assert failed == []


def numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]


@pytest.mark.parametrize("leads", [OURS, THEIRS])
def test_acknowledged_records_are_on_both(
    member: MemberBroker, other: OtherBroker, admin: AdminClient, leads: int
) -> None:
    """S21.1, S21.4, S21.10: whichever leads, the other copies, byte by byte."""
    topic = create(admin, leads, OURS + THEIRS - leads)
    produce(member.bootstrap, topic, 0, COUNT)
    assert consume(member, topic, COUNT) == numbers(COUNT)
    eventually(lambda: segment(member, topic) == segment(other, topic))


def segment(broker: RunningBroker, topic: str) -> bytes:
    """Return the first segment of the topic's partition."""
    (found,) = Path(broker.directory).rglob(f"{topic}-0/00000000000000000000.log")
    return found.read_bytes()


def test_leaders_fail_in_turn(member: MemberBroker, other: OtherBroker, admin: AdminClient) -> None:
    """S21.13, S22.5: each broker is killed while it leads. No acknowledged record is lost."""
    both = f"{member.bootstrap},{other.bootstrap}"
    topic = create(admin, OURS, THEIRS, least=1)
    produce(both, topic, 0, COUNT)
    for number, (killed, left) in enumerate(((member, other), (other, member)), 1):
        killed.kill()
        eventually(partial(leader, left, topic), equal_to=THEIRS if left is other else OURS, timeout_s=60)
        produce(both, topic, COUNT * number, COUNT)
        killed.start()
        eventually(partial(isr, left, topic), equal_to=[OURS, THEIRS], timeout_s=60)
    everything = consume(member, topic, 3 * COUNT)
    assert sorted(everything, key=int) == numbers(3 * COUNT)
    eventually(lambda: segment(member, topic) == segment(other, topic))


def test_a_member_that_stops_moves_its_leadership_first(
    member: MemberBroker, other: OtherBroker, admin: AdminClient
) -> None:
    """S22.7."""
    topic = create(admin, OURS, THEIRS, least=1)
    produce(member.bootstrap, topic, 0, COUNT)
    member.stop()
    assert leader(other, topic) == THEIRS
    produce(other.bootstrap, topic, COUNT, COUNT)
    member.start()
    eventually(lambda: isr(other, topic), equal_to=[OURS, THEIRS], timeout_s=60)
    eventually(lambda: segment(member, topic) == segment(other, topic))


@pytest.mark.parametrize("leads", [OURS, THEIRS])
def test_too_few_replicas_refuse_acks_all(
    member: MemberBroker, other: OtherBroker, admin: AdminClient, leads: int
) -> None:
    """The follower is frozen: the ISR shrinks, nothing is acknowledged, and all is well after it wakes."""
    topic = create(admin, leads, OURS + THEIRS - leads)
    leading, following = (member, other) if leads == OURS else (other, member)
    produce(leading.bootstrap, topic, 0, COUNT)
    os.kill(following.pid, signal.SIGSTOP)
    try:
        eventually(lambda: isr(leading, topic), equal_to=[leads], timeout_s=60)
        # Apache Kafka shows the new ISR a moment before its leader applies it
        eventually(partial(refusal, leading, topic), equal_to="NOT_ENOUGH_REPLICAS")
    finally:
        os.kill(following.pid, signal.SIGCONT)
    eventually(lambda: isr(leading, topic), equal_to=[OURS, THEIRS], timeout_s=60)
    produce(leading.bootstrap, topic, COUNT, COUNT)
    everything = consume(leading, topic, end_offset(leading, topic))  # a refused record may be in the log
    assert sorted(set(everything) - {"refused"}, key=int) == numbers(2 * COUNT)


def end_offset(broker: RunningBroker, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "none"})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
    finally:
        consumer.close()
    return int(end)


def refusal(broker: RunningBroker, topic: str) -> str:
    """Return the error of a record with acks=all."""
    producer = Producer({**QUIET, "bootstrap.servers": broker.bootstrap, "retries": 0, "message.timeout.ms": 20_000})
    codes: list[str] = []
    producer.produce(topic, "refused", on_delivery=lambda error, _: codes.append(error.name() if error else "NONE"))
    producer.flush(30)
    return codes[0].removeprefix("_")
