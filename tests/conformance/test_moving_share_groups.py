"""Share groups of a cluster of both kinds: each of their coordinators and leaders is on either kind, and moves."""

from __future__ import annotations

import os
import signal
import uuid
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import ElectionType, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from protocol.messages.metadata import METADATA, MetadataRequestTopic
from protocol.schema import Struct
from tests.conformance.test_replicas import OURS, THEIRS, create, produce
from tests.integration.membership.kafka_nodes import SECURED, KafkaController, OtherBroker
from tests.integration.membership.member_broker import MemberBroker
from tests.support.brokers import HOST, KafkaBroker, RunningBroker
from tests.support.eventually import eventually
from tests.support.java import JavaRunner, Program
from tests.support.ports import free_port
from tests.support.wire import WireClient

_SETTINGS = {
    "replica.lag.time.max.ms": "3000",
    "broker.heartbeat.interval.ms": "300",
    "controlled.shutdown.enable": "true",
    "offsets.topic.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
    "group.share.record.lock.duration.ms": "15000",
}
COUNT = 40
SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"


class Other(OtherBroker):
    """Apache Kafka, whose share groups settle fast."""

    def __init__(self, directory: Path, controller_port: int) -> None:
        self._controller_port = controller_port
        KafkaBroker.__init__(self, directory, _SETTINGS)


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaController]:
    with KafkaController(tmp_path_factory.mktemp("controller")) as controller:
        yield controller


@pytest.fixture(scope="module")
def member(controller: KafkaController, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemberBroker]:
    port = free_port()
    properties = {**SECURED, **_SETTINGS, "listeners": f"PLAINTEXT://{HOST}:{port}"}
    with MemberBroker(tmp_path_factory.mktemp("member"), controller.port, properties, port=port) as member:
        yield member


@pytest.fixture(scope="module")
def other(
    controller: KafkaController, member: MemberBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OtherBroker]:
    with Other(tmp_path_factory.mktemp("other"), controller.port) as other:
        yield other


@pytest.fixture(scope="module")
def admin(member: MemberBroker, other: OtherBroker) -> AdminClient:
    """A client of a cluster whose internal topics have two partitions. Each broker leads one of each."""
    admin = AdminClient({"bootstrap.servers": f"{member.bootstrap},{other.bootstrap}"})
    for name in ("__consumer_offsets", "__share_group_state"):
        config = {"min.insync.replicas": "1", "cleanup.policy": "compact" if name == "__consumer_offsets" else "delete"}
        topic = NewTopic(name, replica_assignment=[[OURS, THEIRS], [THEIRS, OURS]], num_partitions=2, config=config)
        (created,) = admin.create_topics([topic]).values()
        created.result(30)
    return admin


def group_at(broker_id: int, admin: AdminClient) -> str:
    """Return the id of a new group that this broker coordinates. It reads topics from their beginning."""
    while True:
        group = uuid.uuid4().hex
        if java_hash(group) % 2 == (0 if broker_id == OURS else 1):
            break
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(30)
    return group


def java_hash(text: str) -> int:
    value = 0
    for each in text:
        value = (31 * value + ord(each)) & 0xFFFFFFFF
    return value & 0x7FFFFFFF


def acknowledged(*programs: Program) -> Counter[str]:
    return Counter(line for program in programs for line in program.stdout.split() if line.startswith("+"))


def wanted(topics: list[str], count: int) -> set[str]:
    return {f"+{topic}/{number}" for topic in topics for number in range(count)}


def partitions(broker: RunningBroker, names: list[str]) -> list[Struct]:
    """Return the partitions of these topics as this broker knows them."""
    with WireClient(HOST, broker.port) as client:
        answer = client.call(METADATA, 9, topics=[MetadataRequestTopic(name=name) for name in names])
    return [each for topic in answer.topics for each in topic.partitions]


def leaders(broker: RunningBroker, names: list[str]) -> set[int]:
    return {each.leader_id for each in partitions(broker, names)}


def in_sync(broker: RunningBroker, names: list[str]) -> set[tuple[int, ...]]:
    return {tuple(sorted(each.isr_nodes)) for each in partitions(broker, names)}


def test_members_share_the_partitions_of_both_kinds(
    member: MemberBroker, other: OtherBroker, admin: AdminClient, java: JavaRunner
) -> None:
    """Groups are coordinated by each kind, and the states of the partitions are stored by both."""
    both = f"{member.bootstrap},{other.bootstrap}"
    topics = [create(admin, *replicas, least=1) for replicas in ((OURS, THEIRS), (THEIRS, OURS)) * 2]
    for topic in topics:
        produce(both, topic, 0, COUNT)
    groups = [group_at(coordinator, admin) for coordinator in (OURS, THEIRS)]
    programs = [java.start("ShareConsume", both, ",".join(topics), group, "0", "accept") for group in groups]
    for program in programs:
        eventually(
            partial(acknowledged, program), program.stderr, until=lambda seen: set(seen) >= wanted(topics, COUNT)
        )
        program.stop()
        assert acknowledged(program) == Counter(wanted(topics, COUNT))
    for group in groups:
        assert lags(java, both, group) == dict.fromkeys(topics, "0")


def lags(java: JavaRunner, brokers: str, group: str) -> dict[str, str]:
    """Return the lags by topic, as kafka-share-groups prints them: half of the partitions are on another broker."""
    done = java.run(SHARE_GROUPS, "--bootstrap-server", brokers, "--describe", "--group", group)
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith(group)]
    return {row[1]: row[4] for row in rows}


class Outage:
    """A broker is away: killed, stopped in order, or frozen beyond its session."""

    def __init__(self, how: str, broker: RunningBroker) -> None:
        self._how = how
        self._broker = broker

    def begin(self) -> None:
        if self._how == "frozen":
            os.kill(self._broker.pid, signal.SIGSTOP)
        elif self._how == "stopped":
            self._broker.stop()
        else:
            self._broker.kill()

    def end(self) -> None:
        if self._how == "frozen":
            os.kill(self._broker.pid, signal.SIGCONT)
        else:
            self._broker.start()


@pytest.mark.full_size
@pytest.mark.parametrize("how", ["killed", "stopped", "frozen"])
@pytest.mark.parametrize("coordinator", [OURS, THEIRS])
def test_share_groups_outlive_each_broker(
    member: MemberBroker, other: OtherBroker, admin: AdminClient, java: JavaRunner, coordinator: int, how: str
) -> None:
    """Each broker leads partitions, groups and states in turn.

    No record is lost, and none comes again after its acknowledgement.
    """
    both = f"{member.bootstrap},{other.bootstrap}"
    topics = [create(admin, OURS, THEIRS, least=1), create(admin, THEIRS, OURS, least=1)]
    names = [*topics, "__consumer_offsets", "__share_group_state"]
    group = group_at(coordinator, admin)
    programs = [java.start("ShareConsume", both, ",".join(topics), group, "0", "accept") for _ in range(2)]
    count = 0

    def work(at: RunningBroker) -> None:
        nonlocal count
        for topic in topics:
            produce(at.bootstrap, topic, count, COUNT)
        count += COUNT
        everything = {f"{topic}/{number}" for topic in topics for number in range(count)}
        eventually(
            lambda: everything - delivered(*programs),
            lambda: [program.stderr for program in programs],
            equal_to=set(),
            timeout_s=120,
        )

    work(member)
    for lost, left, left_id in ((member, other, THEIRS), (other, member, OURS)):
        outage = Outage(how, lost)
        outage.begin()
        try:
            eventually(partial(leaders, left, names), equal_to={left_id})
            work(left)
        finally:
            outage.end()
        eventually(partial(in_sync, left, names), equal_to={(OURS, THEIRS)})
        places = [TopicPartition(name, index) for name in names for index in range(1 if name in topics else 2)]
        for _, error in admin.elect_leaders(ElectionType.PREFERRED, places).result(30).items():
            assert error is None or error.code() == KafkaError.ELECTION_NOT_NEEDED
        work(left)
    for program in programs:
        program.stop()
    assert max(acknowledged(*programs).values()) == 1
    for program in programs:
        assert again(program) == []


def delivered(*programs: Program) -> set[str]:
    return {line.partition("=")[2] for program in programs for line in program.stdout.split() if line[0] == "="}


def again(program: Program) -> list[str]:
    """Return the records that a member got after the broker had taken its acknowledgement."""
    done: set[str] = set()
    found: list[str] = []
    for line in program.stdout.split():
        if line[0] == "+":
            done.add(line[1:])
        elif line[0] == "=" and line[1:] in done:
            found.append(line[1:])
    return found
