"""Coordinators move between a member and a broker of Apache Kafka, which are killed in turn under their clients."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.conformance.test_replicas import OURS, THEIRS, create, isr, leader, numbers
from tests.integration.membership.kafka_nodes import QUIET, OtherBroker, Pair, brokers_of_both_kinds
from tests.integration.membership.member_broker import MemberBroker
from tests.support.brokers import RunningBroker
from tests.support.eventually import eventually

_INTERNAL = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.min.isr": "1",
    "replica.lag.time.max.ms": "3000",
    "controlled.shutdown.enable": "true",
}
COUNT = 30


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with brokers_of_both_kinds(tmp_path_factory.mktemp, _INTERNAL, _INTERNAL) as pair:
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


class Reader:
    """A member of a group that reads without pause, and commits what it has read."""

    def __init__(self, brokers: str, group: str, topic: str, protocol: str) -> None:
        settings: dict[str, Any] = {"bootstrap.servers": brokers, "group.id": group, "auto.offset.reset": "earliest"}
        settings |= {"group.protocol": protocol, "enable.auto.commit": False, "isolation.level": "read_committed"}
        if protocol == "classic":
            settings |= {"session.timeout.ms": 45_000, "heartbeat.interval.ms": 500}
        self.group = group
        self.seen: list[str] = []
        self.generations: list[object] = []
        self.committed = 0
        self._ends = threading.Event()
        self._consumer = Consumer(settings)
        self._consumer.subscribe([topic], on_assign=lambda _, given: self.generations.append(given))
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        while not self._ends.is_set():
            found = self._consumer.poll(0.1)
            if found is None or found.error():
                continue
            self.seen.append(value_of(found))
            offset = found.offset()
            assert offset is not None
            while self.committed <= offset and not self._ends.is_set():
                with suppress(KafkaException):
                    self._consumer.commit(message=found, asynchronous=False)
                    self.committed = offset + 1
        self._consumer.close()

    def count(self) -> int:
        """Return the number of records whose offsets are committed."""
        return len(set(self.seen)) if self.committed else 0

    def stop(self) -> None:
        self._ends.set()
        self._thread.join()


def value_of(message: Message) -> str:
    value = message.value()
    assert value is not None
    return value.decode()


def offset_of(brokers: str, group: str, topic: str) -> int:
    """Return the committed offset of a group."""
    asked = Consumer({**QUIET, "bootstrap.servers": brokers, "group.id": group})
    try:
        (found,) = asked.committed([TopicPartition(topic, 0)], timeout=30)
        return int(found.offset)
    finally:
        asked.close()


def id_of(broker: RunningBroker) -> int:
    return OURS if isinstance(broker, MemberBroker) else THEIRS


def kill(killed: RunningBroker, left: RunningBroker, *topics: str) -> None:
    """Kill a broker, and wait until the other one leads these topics."""
    killed.kill()
    for topic in topics:
        eventually(
            partial(leader, left, topic), equal_to=OURS if isinstance(left, MemberBroker) else THEIRS, timeout_s=60
        )


def transact(producer: Producer, topics: list[str], first: int) -> None:
    """Begin a transaction, and write COUNT numbers into each topic."""
    producer.begin_transaction()
    for topic in topics:
        for number in range(first, first + COUNT):
            producer.produce(topic, str(number))
    assert producer.flush(30) == 0


def committed_records(broker: RunningBroker, topic: str) -> list[str]:
    """Return all records that a read_committed consumer sees."""
    consumer = Consumer(
        {
            **QUIET,
            "bootstrap.servers": broker.bootstrap,
            "group.id": uuid.uuid4().hex,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        seen: list[str] = []
        while True:
            found = consumer.poll(30)
            assert found is not None
            if found.error():
                return seen
            seen.append(value_of(found))
    finally:
        consumer.close()


@pytest.mark.full_size
def test_groups_and_transactions_outlive_their_coordinators(
    member: MemberBroker, other: OtherBroker, admin: AdminClient
) -> None:
    """Both internal topics move with each kill. Members of both protocols read on without a rebalance; markers reach
    the partitions of both brokers; nothing aborted is seen, and offsets are kept.
    """
    both = f"{member.bootstrap},{other.bootstrap}"
    killed_ids: list[int] = []
    producer = Producer({**QUIET, "bootstrap.servers": both, "transactional.id": uuid.uuid4().hex, "linger.ms": 0})
    producer.init_transactions(60)
    read = create(admin, OURS, THEIRS, least=1)
    readers = [Reader(both, uuid.uuid4().hex, read, protocol) for protocol in ("classic", "consumer")]
    try:
        for first in (0, 2 * COUNT):
            coordinator = leader(member, "__transaction_state")
            killed, left = (member, other) if coordinator == OURS else (other, member)
            killed_ids.append(coordinator)
            topics = [create(admin, OURS, THEIRS, least=1), create(admin, THEIRS, OURS, least=1)]
            transact(producer, [read, *topics], first)
            producer.commit_transaction(60)
            for topic in topics:
                # the markers may come after the answer
                eventually(partial(committed_records, left, topic), equal_to=numbers(first + COUNT)[first:])
            for reader in readers:
                eventually(reader.count, equal_to=first + COUNT, timeout_s=60)

            transact(producer, [read, *topics], first + COUNT)
            group = uuid.uuid4().hex  # librdkafka asks the former coordinator of a known one for a long time
            offsets = [TopicPartition(topic, 0, 2 * COUNT) for topic in topics]
            outsider = Consumer({**QUIET, "bootstrap.servers": both, "group.id": group})
            producer.send_offsets_to_transaction(offsets, outsider.consumer_group_metadata(), 60)
            outsider.close()
            kill(killed, left, "__transaction_state", "__consumer_offsets", *topics)
            producer.commit_transaction(60)
            transact(producer, [read, *topics], 1000)
            producer.abort_transaction(60)
            for topic in topics:
                eventually(partial(committed_records, left, topic), equal_to=numbers(first + 2 * COUNT)[first:])
                eventually(partial(offset_of, both, group, topic), equal_to=2 * COUNT)
            for reader in readers:
                eventually(reader.count, equal_to=first + 2 * COUNT, timeout_s=60)
            if first == 0:
                killed.start()
                for topic in ("__transaction_state", "__consumer_offsets", read):
                    eventually(partial(isr, left, topic), equal_to=[OURS, THEIRS], timeout_s=60)
    finally:
        for reader in readers:
            reader.stop()
    assert sorted(killed_ids) == [OURS, THEIRS]
    for reader in readers:
        assert list(dict.fromkeys(reader.seen)) == numbers(4 * COUNT)
        assert len(reader.generations) == 1
        assert offset_of(left.bootstrap, reader.group, read) == reader.committed > 4 * COUNT
