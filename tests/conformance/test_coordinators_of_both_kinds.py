"""Coordinators in a cluster of both kinds: share groups with parts on both, and groups whose replicas are too few."""

from __future__ import annotations

import os
import signal
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pytest
from confluent_kafka import ElectionType, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import CONSUMER_GROUP_HEARTBEAT
from protocol.messages.join_group import JOIN_GROUP
from protocol.messages.list_groups import LIST_GROUPS
from protocol.messages.metadata import METADATA, MetadataRequestTopic
from protocol.messages.offset_commit import OFFSET_COMMIT
from protocol.messages.offset_fetch import OFFSET_FETCH
from protocol.schema import Api, Struct
from tests.conformance.test_replicas import OURS, THEIRS, create, produce
from tests.integration.membership.kafka_nodes import QUIET, OtherBroker, Pair, brokers_of_both_kinds
from tests.integration.membership.member_broker import MemberBroker
from tests.support.brokers import HOST, RunningBroker
from tests.support.eventually import eventually
from tests.support.java import JavaRunner, Program
from tests.support.wire import WireClient

_SETTINGS = {
    "replica.lag.time.max.ms": "3000",
    "broker.heartbeat.interval.ms": "300",
    "controlled.shutdown.enable": "true",
    "offsets.topic.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
    "group.share.record.lock.duration.ms": "15000",
    "group.consumer.assignment.interval.ms": "0",
}
COUNT = 40
SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with brokers_of_both_kinds(tmp_path_factory.mktemp, _SETTINGS, _SETTINGS) as pair:
        yield pair


@pytest.fixture(scope="module")
def member(pair: Pair) -> MemberBroker:
    return pair.member


@pytest.fixture(scope="module")
def other(pair: Pair) -> OtherBroker:
    return pair.other


@pytest.fixture(scope="module")
def admin(pair: Pair) -> AdminClient:
    """A client of a cluster whose internal topics have two partitions. Each broker leads one of each."""
    admin = AdminClient({**QUIET, "bootstrap.servers": pair.bootstrap})
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


# -- too few replicas --------------------------------------------------------------------------------------------------


class Groups:
    """Clients of three groups in one partition of __consumer_offsets: with members, with offsets alone, a new one."""

    def __init__(self, broker: RunningBroker, ids: Sequence[str], topic: str) -> None:
        self._broker = broker
        self._with_members, self._with_offsets, self._new = ids
        self._topic = topic
        self._epoch = 0

    def answers(self) -> list[object]:
        """Return what each request is answered: first those that write, then those that do not."""
        return [
            self.commit(7),
            self.beat("second", 0),
            self.join(),
            self.beat_first(),
            self.fetch(),
            self.is_listed(),
        ]

    def join_first(self) -> str:
        return self.beat("first", 0)

    def beat_first(self) -> str:
        """Send the heartbeat of the member that has joined. After two of them it has nothing more to write."""
        return self.beat("first", self._epoch)

    def beat(self, member_id: str, epoch: int) -> str:
        """Send a member's heartbeat; one of epoch 0 joins."""
        joins = {"subscribed_topic_names": [self._topic], "topic_partitions": [], "rebalance_timeout_ms": 60_000}
        answer = self._call(
            CONSUMER_GROUP_HEARTBEAT,
            1,
            group_id=self._with_members,
            member_id=member_id,
            member_epoch=epoch,
            **({} if epoch else joins),
        )
        if member_id == "first":
            self._epoch = answer.member_epoch
        return ErrorCode(answer.error_code).name

    def join(self) -> str:
        """Join a new classic group."""
        timeouts = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 30_000}
        protocols = [{"name": "range", "metadata": b""}]
        named = {"member_id": "", "protocol_type": "consumer", "protocols": protocols}
        return ErrorCode(self._call(JOIN_GROUP, 3, group_id=self._new, **timeouts, **named).error_code).name

    def commit(self, offset: int) -> str:
        partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
        topics = [{"name": self._topic, "partitions": [partition]}]
        answer = self._call(OFFSET_COMMIT, 8, group_id=self._with_offsets, topics=topics)
        return ErrorCode(answer.topics[0].partitions[0].error_code).name

    def fetch(self) -> tuple[str, int]:
        (group,) = self._call(OFFSET_FETCH, 8, groups=[{"group_id": self._with_offsets, "topics": None}]).groups
        return ErrorCode(group.error_code).name, group.topics[0].partitions[0].committed_offset

    def is_listed(self) -> tuple[str, bool]:
        answer = self._call(LIST_GROUPS, 5)
        return ErrorCode(answer.error_code).name, self._with_offsets in {each.group_id for each in answer.groups}

    def _call(self, api: Api, version: int, **fields: Any) -> Any:
        with WireClient(HOST, self._broker.port) as client:
            return client.call(api, version, **fields)


def configure(admin: AdminClient, topic: str, key: str, value: str) -> None:
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(30)


@pytest.mark.parametrize("coordinator", [OURS, pytest.param(THEIRS, marks=pytest.mark.full_size)])
def test_groups_whose_replicas_are_too_few(
    member: MemberBroker, other: OtherBroker, admin: AdminClient, coordinator: int
) -> None:
    """Nothing is written; groups whose records were committed before go on."""
    leading, following = (member, other) if coordinator == OURS else (other, member)
    topic = create(admin, coordinator, least=1)
    groups = Groups(leading, [group_at(coordinator, admin) for _ in range(3)], topic)
    eventually(lambda: groups.commit(5), equal_to="NONE")
    assert [groups.join_first(), groups.beat_first(), groups.beat_first()] == ["NONE"] * 3
    configure(admin, "__consumer_offsets", "min.insync.replicas", "2")
    outage = Outage("frozen", following)
    outage.begin()

    def left_in_sync() -> set[tuple[int, ...]]:
        groups.beat_first()  # the session of the member may be shorter, and its end is a record
        return in_sync(leading, ["__consumer_offsets"])

    try:
        eventually(left_in_sync, equal_to={(coordinator,)}, timeout_s=120, interval_s=0.5)
        answers = groups.answers()
        assert answers[:2] == ["COORDINATOR_NOT_AVAILABLE"] * 2
        assert answers[4:] == [("NONE", 5), ("NONE", True)]
        if coordinator == OURS:  # Kafka answers a new classic member before it writes, and refuses the heartbeat
            assert answers[2:4] == ["COORDINATOR_NOT_AVAILABLE", "NONE"]
    finally:
        outage.end()
        configure(admin, "__consumer_offsets", "min.insync.replicas", "1")
    eventually(partial(in_sync, leading, ["__consumer_offsets"]), equal_to={(OURS, THEIRS)}, timeout_s=150)
    places = [TopicPartition("__consumer_offsets", index) for index in range(2)]
    admin.elect_leaders(ElectionType.PREFERRED, places).result(30)
    assert eventually(lambda: groups.answers()[0], equal_to="NONE") == "NONE"
    assert groups.fetch() == ("NONE", 7)
